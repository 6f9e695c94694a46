/** From a request's URL to what serves it. */
import type { RequestListener } from "node:http";
import { tryParseDuration } from "@cocoon/core";
import type { AdmissionEndpoint } from "./decide.ts";

export interface EndpointRoute {
  readonly kind: "endpoint";
  readonly endpoint: AdmissionEndpoint;
  readonly budgetMs: number;
}

type Route = EndpointRoute | { readonly kind: "listener"; readonly listener: RequestListener };

export interface Router {
  find(url: string): Route | undefined;
}

export interface RouterOptions {
  readonly endpoints: Readonly<Record<string, AdmissionEndpoint>>;
  readonly routes: Readonly<Record<string, RequestListener>>;
  readonly time: TimeLimits;
}

/** An API server sends the same few URLs all day; anything beyond that is looked up each time. */
const rememberedUrls = 256;

export function createRouter({ endpoints, routes, time }: RouterOptions): Router {
  const endpointAt = new Map(Object.entries(endpoints));
  const listenerAt = new Map(Object.entries(routes));
  const remembered = new Map<string, EndpointRoute>();
  return {
    find(url) {
      const known = remembered.get(url);
      if (known) return known;
      const mark = url.indexOf("?");
      const path = mark < 0 ? url : url.slice(0, mark);
      const endpoint = endpointAt.get(path);
      if (!endpoint) {
        const listener = listenerAt.get(path);
        return listener && { kind: "listener", listener };
      }
      const { defaultTimeoutMs = time.defaultTimeoutMs } = endpoint;
      const budgetMs = computeBudget(mark < 0 ? "" : url.slice(mark + 1), { ...time, defaultTimeoutMs });
      const route: EndpointRoute = { kind: "endpoint", endpoint, budgetMs };
      if (remembered.size < rememberedUrls && url.length < 256) remembered.set(url, route);
      return route;
    },
  };
}

export interface TimeLimits {
  /** Share of the API server's timeout that a handler may use; the rest is for the way back. */
  readonly share: number;
  readonly defaultTimeoutMs: number;
  /** No API server waits longer than this, whatever the request says. */
  readonly maxTimeoutMs: number;
}

export const defaultTimeLimits: TimeLimits = { share: 0.8, defaultTimeoutMs: 10_000, maxTimeoutMs: 30_000 };

/** The API server sends `?timeout=10s`, in Go's notation. */
function computeBudget(query: string, limits: TimeLimits): number {
  const given = tryParseDuration(new URLSearchParams(query).get("timeout") ?? "");
  const timeoutMs = given !== undefined && given > 0 ? given : limits.defaultTimeoutMs;
  return Math.min(timeoutMs, limits.maxTimeoutMs) * limits.share;
}
