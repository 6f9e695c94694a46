/** The shape of everything that answers a request. */
import type { Services } from "../open-services.ts";
import type { Exchange } from "./exchange.ts";
import type { RouteKind, RouteOf } from "./route.ts";

export type Handler<K extends RouteKind> = (
  exchange: Exchange,
  route: RouteOf<K>,
  services: Services,
) => Promise<void> | void;

/** GET handlers answer HEAD as well. */
type Methods<K extends RouteKind> = Partial<Record<"GET" | "POST" | "PUT" | "PATCH" | "DELETE", Handler<K>>>;

export type RouteTable = { readonly [K in RouteKind]: Methods<K> };
