/** From a request's URL to what serves it. */
import type { RequestListener } from "node:http";
import { budgetOf, type TimeLimits } from "./budget.ts";
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
      const budgetMs = budgetOf(mark < 0 ? "" : url.slice(mark + 1), { ...time, defaultTimeoutMs });
      const route: EndpointRoute = { kind: "endpoint", endpoint, budgetMs };
      if (remembered.size < rememberedUrls && url.length < 256) remembered.set(url, route);
      return route;
    },
  };
}
