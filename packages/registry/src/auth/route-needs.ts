/** What each route needs of its caller, in one place. */
import type { Route, RouteKind } from "../http/route.ts";
import type { Action, Need } from "./access.ts";

const nothing: Need = { kind: "nothing" };
const identity: Need = { kind: "identity" };
const catalog: Need = { kind: "catalog" };
const statistics: Need = { kind: "statistics" };
const tokens: Need = { kind: "tokens" };
const admin: Need = { kind: "admin" };

const apiRoutes: ReadonlySet<RouteKind> = new Set(["apiRepository", "apiTags", "apiTag"]);

const needs = {
  health: nothing,
  ready: nothing,
  token: nothing,
  login: nothing,
  loginCallback: nothing,
  logout: nothing,
  home: nothing,
  ping: identity,
  me: identity,
  catalog,
  apiStats: statistics,
  apiRepositories: statistics,
  apiTokens: admin,
  apiToken: admin,
  apiGc: admin,
  apiFsck: admin,
  apiSync: admin,
} as const satisfies Partial<Record<RouteKind, Need>>;

export function findNeed(route: Route, method: string): Need {
  const reads = findAction(method) === "pull";
  if (route.kind === "apiTokens" && reads) return tokens;
  if (!("name" in route)) return needs[route.kind];
  if (reads && apiRoutes.has(route.kind)) return { kind: "statistics", name: route.name };
  const uploading = route.kind === "uploads" || route.kind === "upload";
  return { kind: "repository", name: route.name, action: uploading ? "push" : findAction(method) };
}

function findAction(method: string): Action {
  if (method === "DELETE") return "delete";
  return method === "GET" || method === "HEAD" || method === "OPTIONS" ? "pull" : "push";
}
