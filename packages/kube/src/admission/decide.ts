/** Runs one handler on one request, within its time. */
import { Fault, type Logger } from "@cocoon/core";
import type { AdmissionContext, AdmissionHandler, Decision, AdmissionRequest } from "./request.ts";
import { allow, deny, type Verdict } from "./verdict.ts";

export interface AdmissionEndpoint {
  readonly name: string;
  readonly handler: AdmissionHandler;
  /** The answer when the handler takes too long. Default: deny. */
  readonly onExpiry?: "deny" | "allow";
  /** The API server's timeout that is assumed when a request does not say; default the server's. */
  readonly defaultTimeoutMs?: number;
}

/** How a review ended, as metrics count it. The last three have no verdict of the handler's. */
export type ReviewResult = "allow" | "patch" | "deny" | "expired" | "error" | "aborted";

export interface ReviewOutcome {
  readonly result: ReviewResult;
  /** Absent: there is no client left (`aborted`) or the reason is not for clients (`error`). */
  readonly verdict?: Verdict;
  readonly error?: unknown;
}

/** Signal and logger are made when first used: most handlers answer at once and need neither. */
export class ReviewContext implements AdmissionContext {
  readonly budgetMs: number;
  readonly client: string;
  readonly #uid: string;
  readonly #parentLog: Logger;
  #controller: AbortController | undefined;
  #log: Logger | undefined;

  constructor(given: {
    readonly uid: string;
    readonly budgetMs: number;
    readonly client: string;
    readonly log: Logger;
  }) {
    this.#uid = given.uid;
    this.budgetMs = given.budgetMs;
    this.client = given.client;
    this.#parentLog = given.log;
  }

  get signal(): AbortSignal {
    this.#controller ??= new AbortController();
    return this.#controller.signal;
  }

  get log(): Logger {
    this.#log ??= this.#parentLog.child({ uid: this.#uid });
    return this.#log;
  }

  abort(reason: Fault): void {
    this.#controller ??= new AbortController();
    this.#controller.abort(reason);
  }
}

export interface Review {
  readonly endpoint: AdmissionEndpoint;
  readonly request: AdmissionRequest;
  readonly context: ReviewContext;
  readonly remainingMs: number;
  readonly onGone: (listener: () => void) => void;
}

/** Never rejects. */
export function decide(review: Review): ReviewOutcome | Promise<ReviewOutcome> {
  let decision: Decision | Promise<Decision>;
  try {
    decision = review.endpoint.handler(review.request, review.context);
  } catch (error) {
    return { result: "error", error };
  }
  return decision instanceof Promise ? withinTime(review, decision) : getOutcome(decision);
}

function withinTime(review: Review, decision: Promise<Decision>): Promise<ReviewOutcome> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => {
      resolve(expired(review));
      review.context.abort(new Fault("timeout", `no decision within ${review.context.budgetMs} ms`));
    }, review.remainingMs);
    review.onGone(() => {
      clearTimeout(timer);
      resolve({ result: "aborted" });
      review.context.abort(new Fault("unavailable", "the API server no longer waits for the answer"));
    });
    decision.then(
      (verdict) => {
        clearTimeout(timer);
        resolve(getOutcome(verdict));
      },
      (error: unknown) => {
        clearTimeout(timer);
        resolve({ result: "error", error });
      },
    );
  });
}

function expired({ endpoint, context }: Review): ReviewOutcome {
  const seconds = Math.round(context.budgetMs) / 1000;
  const verdict =
    endpoint.onExpiry === "allow"
      ? allow({ warnings: [`${endpoint.name}: no decision within ${seconds} s, allowed unchecked`] })
      : deny(`${endpoint.name}: no decision within ${seconds} s, try again`, {
          code: 504,
          reason: "Timeout",
        });
  return { result: "expired", verdict };
}

const allowedSilently: ReviewOutcome = { result: "allow", verdict: allow() };

function getOutcome(decision: Decision): ReviewOutcome {
  if (!decision) return allowedSilently;
  if (decision.kind === "deny") return { result: "deny", verdict: decision };
  return { result: decision.patch && decision.patch.length > 0 ? "patch" : "allow", verdict: decision };
}
