/** The control API: who calls, which route, and an error body whatever happens. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { getErrorMessage, type Logger } from "@cocoon/core";
import { ApiError, readJsonBody, sendError, toApiError } from "../http/answer.ts";
import type { Authenticator } from "../tenants/authenticate.ts";
import type { RateLimit } from "../tenants/rate-limit.ts";
import type { Tenant } from "../tenants/tenant.ts";

export interface Call {
  readonly tenant: Tenant;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly query: URLSearchParams;
  readonly body: unknown;
  /** Aborts when the client leaves. */
  readonly signal: AbortSignal;
  readonly parameter: (name: string) => string;
}

/** By method and pattern; `{name}` is one segment, which may hold an encoded "/". */
export type Routes = Readonly<Record<string, (call: Call) => Promise<void>>>;

interface Route {
  readonly method: string;
  readonly segments: readonly string[];
  readonly handle: (call: Call) => Promise<void>;
}

export interface RouterOptions {
  readonly authenticator: Authenticator;
  readonly limit: RateLimit;
  readonly routes: Routes;
  readonly log: Logger;
}

export class ControlRouter {
  readonly #options: RouterOptions;
  readonly #routes: readonly Route[];

  constructor(options: RouterOptions) {
    this.#options = options;
    const routes = Object.entries(options.routes).map(([key, handle]) => {
      const [method = "", pattern = ""] = key.split(" ");
      return { method, segments: pattern.split("/"), handle };
    });
    // "/sandboxes/metrics" before "/sandboxes/{id}".
    this.#routes = routes.toSorted((left, right) => countParameters(left) - countParameters(right));
  }

  async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const left = new AbortController();
    response.once("close", () => left.abort(new Error("the client left")));
    try {
      await this.#answer(request, response, left.signal);
    } catch (error) {
      if (left.signal.aborted) return;
      const failure = toApiError(error);
      if (failure.status >= 500 && failure.status !== 501)
        this.#options.log.warn(
          { path: request.url, status: failure.status, error: getErrorMessage(error) },
          "request failed",
        );
      sendError(response, failure);
    }
  }

  async #answer(request: IncomingMessage, response: ServerResponse, signal: AbortSignal): Promise<void> {
    const [path = "/", query = ""] = (request.url ?? "/").split("?", 2);
    const key = request.headers["x-api-key"];
    const tenant = await this.#options.authenticator.authenticate(typeof key === "string" ? key : undefined, {
      signal,
    });
    this.#options.limit.take(tenant.keyId);
    const found = this.#find(request.method ?? "GET", path);
    if (!found) throw new ApiError(501, `${request.method ?? ""} ${path} is not offered by this gateway`);
    const body = await readJsonBody(request);
    await found.route.handle({
      tenant,
      request,
      response,
      query: new URLSearchParams(query),
      body,
      signal,
      parameter: (name) => found.parameters.get(name) ?? "",
    });
  }

  #find(
    method: string,
    path: string,
  ): { readonly route: Route; readonly parameters: ReadonlyMap<string, string> } | undefined {
    const given = path.replace(/(.)\/$/, "$1").split("/");
    for (const route of this.#routes) {
      if (route.method !== method || route.segments.length !== given.length) continue;
      const parameters = match(route.segments, given);
      if (parameters) return { route, parameters };
    }
    return undefined;
  }
}

function countParameters({ segments }: Route): number {
  return segments.filter((segment) => segment.startsWith("{")).length;
}

function match(
  pattern: readonly string[],
  given: readonly string[],
): ReadonlyMap<string, string> | undefined {
  const parameters = new Map<string, string>();
  for (const [index, segment] of pattern.entries()) {
    const text = given[index] ?? "";
    if (segment.startsWith("{")) parameters.set(segment.slice(1, -1), decode(text));
    else if (segment !== text) return undefined;
  }
  return parameters;
}

function decode(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    throw new ApiError(400, "the path is not percent-encoded text");
  }
}
