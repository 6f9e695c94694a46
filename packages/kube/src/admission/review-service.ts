/** One review from headers to answer, with the limits, the counting and the logging around it. */
import { Fault, getErrorMessage, type Logger } from "@cocoon/core";
import type { IncomingMessage, ServerResponse } from "node:http";
import { decide, ReviewContext, type ReviewOutcome } from "./decide.ts";
import type { AdmissionMetrics, RequestResult } from "./metrics.ts";
import type { Review } from "./read-review.ts";
import type { AdmissionRequest } from "./request.ts";
import { readBody, sendReview, sendText, sendTextAndHangUp, type TextAnswer } from "./http.ts";
import type { EndpointRoute } from "./router.ts";
import type { Verdict } from "./verdict.ts";
import type { ReviewWire } from "./wire.ts";

export interface ReviewEvent {
  readonly handler: string;
  readonly result: RequestResult;
  readonly status: number;
  readonly seconds: number;
  readonly request: AdmissionRequest | undefined;
  readonly verdict: Verdict | undefined;
}

export type ReviewObserver = (event: ReviewEvent) => void;

export interface ReviewServiceOptions {
  readonly limits: { readonly bodyBytes: number; readonly depth: number; readonly inFlight: number };
  readonly metrics: AdmissionMetrics;
  readonly observe: ReviewObserver | undefined;
  readonly log: Logger;
  readonly isStopping: () => boolean;
  readonly wire: ReviewWire;
}

interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly route: EndpointRoute;
  readonly arrivedMs: number;
  readonly log: Logger;
}

interface Ending {
  readonly result: RequestResult;
  readonly status: number;
  readonly review?: Review | undefined;
  readonly verdict?: Verdict | undefined;
}

export class ReviewService {
  readonly #options: ReviewServiceOptions;
  readonly #logs = new Map<string, Logger>();
  #inFlight = 0;

  constructor(options: ReviewServiceOptions) {
    this.#options = options;
  }

  /** Always answers, unless the client is gone; never rejects. */
  async serve(request: IncomingMessage, response: ServerResponse, route: EndpointRoute): Promise<void> {
    const { name } = route.endpoint;
    const exchange = { request, response, route, arrivedMs: performance.now(), log: this.#getLog(name) };
    this.#inFlight += 1;
    this.#options.metrics.started(name);
    let ending: Ending = { result: "error", status: 500 };
    try {
      ending = await this.#review(exchange);
    } catch (error) {
      ending = this.#refuse(exchange, error);
    } finally {
      this.#inFlight -= 1;
      this.#finish(exchange, ending);
    }
  }

  async #review(exchange: Exchange): Promise<Ending> {
    const { request, response } = exchange;
    this.#checkHeaders(request);
    const { limits, wire } = this.#options;
    const body = await readBody(request, limits.bodyBytes);
    const review = wire.read(body, { maxDepth: limits.depth });
    const decided = decide(reviewToDecide(exchange, review.request));
    const outcome = decided instanceof Promise ? await decided : decided;
    const { result, verdict } = outcome;
    if (!verdict) return this.#withoutVerdict(exchange, review, outcome);
    sendReview(response, wire.write(review, verdict), this.#options.isStopping());
    return { result, status: 200, review, verdict };
  }

  #checkHeaders(request: IncomingMessage): void {
    this.#options.wire.checkHeaders(request);
    if (this.#inFlight > this.#options.limits.inFlight)
      throw new Fault("tooManyRequests", "too many admission requests at once");
  }

  #withoutVerdict({ response, log }: Exchange, review: Review, outcome: ReviewOutcome): Ending {
    const { uid } = review.request;
    if (outcome.result === "aborted") return { result: "aborted", status: 0, review };
    log.error({ uid, err: outcome.error }, "admission handler failed");
    sendText(response, { status: 500, text: `internal error; see the webhook's log for uid ${uid}` });
    return { result: "error", status: 500, review };
  }

  /** What could not be read is the client's fault and is explained; any other failure is ours and is not. */
  #refuse({ request, response, log }: Exchange, error: unknown): Ending {
    const fault = error instanceof Fault ? error : undefined;
    if (fault?.code === "unavailable") return { result: "aborted", status: 0 };
    if (!fault || fault.traits.status >= 500) {
      log.error({ err: error }, "admission request failed");
      sendText(response, { status: 500, text: "internal error" });
      return { result: "error", status: 500 };
    }
    log.debug({ code: fault.code, error: getErrorMessage(fault) }, "admission request refused");
    const text = this.#options.wire.refuse?.(fault);
    if (text !== undefined) {
      refuseWith({ request, response }, { status: 200, text }, fault);
      return { result: "rejected", status: 200 };
    }
    const answer = { status: fault.traits.status, text: `${fault.message}\n`, headers: headersFor(fault) };
    refuseWith({ request, response }, answer, fault);
    return { result: "rejected", status: fault.traits.status };
  }

  #finish({ route, arrivedMs, log }: Exchange, { result, status, review, verdict }: Ending): void {
    const seconds = (performance.now() - arrivedMs) / 1000;
    const handler = route.endpoint.name;
    const request = review?.request;
    this.#options.metrics.finished(handler, result, seconds);
    this.#options.observe?.({ handler, result, status, seconds, request, verdict });
    if (result === "expired")
      log.warn({ uid: request?.uid, budgetMs: route.budgetMs }, "admission handler took too long");
    else log.debug({ uid: request?.uid, result, tookMs: seconds * 1000 }, "admission reviewed");
  }

  #getLog(handler: string): Logger {
    const known = this.#logs.get(handler);
    if (known) return known;
    const log = this.#options.log.child({ handler });
    this.#logs.set(handler, log);
    return log;
  }
}

function reviewToDecide(
  { request, response, route, arrivedMs, log }: Exchange,
  admission: AdmissionRequest,
): Parameters<typeof decide>[0] {
  const { endpoint, budgetMs } = route;
  return {
    endpoint,
    request: admission,
    context: new ReviewContext({
      uid: admission.uid,
      budgetMs,
      client: request.socket.remoteAddress ?? "",
      log,
    }),
    remainingMs: Math.max(0, budgetMs - (performance.now() - arrivedMs)),
    onGone: (listener) => {
      response.on("close", () => {
        if (!response.writableFinished) listener();
      });
    },
  };
}

function refuseWith(
  exchange: { readonly request: IncomingMessage; readonly response: ServerResponse },
  answer: TextAnswer,
  fault: Fault,
): void {
  if (fault.code === "tooLarge") sendTextAndHangUp(exchange, answer);
  else sendText(exchange.response, answer);
}

function headersFor(fault: Fault): Record<string, string> {
  if (fault.code === "methodNotAllowed") return { Allow: "POST" };
  if (fault.code === "unsupportedMediaType") return { Accept: "application/json" };
  if (fault.code === "tooManyRequests") return { "Retry-After": "1" };
  return {};
}
