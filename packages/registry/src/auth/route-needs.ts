/** What each route asks of its caller, in one place. */
import type { Route, RouteKind } from "../http/route.ts";
import type { Action, Need } from "./access.ts";

const nothing: Need = { kind: "nothing" };
const identity: Need = { kind: "identity" };
const catalog: Need = { kind: "catalog" };
const admin: Need = { kind: "admin" };

/** Routes that are not about one repository. */
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
  apiStats: catalog,
  apiRepositories: catalog,
  apiTokens: admin,
  apiToken: admin,
  apiGc: admin,
  apiSync: admin,
} as const satisfies Partial<Record<RouteKind, Need>>;

export function needOf(route: Route, method: string): Need {
  if (!("name" in route)) return needs[route.kind];
  const uploading = route.kind === "uploads" || route.kind === "upload";
  return { kind: "repository", name: route.name, action: uploading ? "push" : actionOf(method) };
}

function actionOf(method: string): Action {
  if (method === "DELETE") return "delete";
  return method === "GET" || method === "HEAD" || method === "OPTIONS" ? "pull" : "push";
}
