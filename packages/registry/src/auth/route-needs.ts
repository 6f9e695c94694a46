/** What each route asks of its caller, in one place. */
import type { Route } from "../http/route.ts";
import type { Action, Need } from "./access.ts";

export function needOf(route: Route, method: string): Need {
  switch (route.kind) {
    case "health":
    case "ready":
    case "token":
      return { kind: "nothing" };
    case "ping":
      return { kind: "identity" };
    case "catalog":
      return { kind: "catalog" };
    case "uploads":
    case "upload":
      return { kind: "repository", name: route.name, action: "push" };
    default:
      return { kind: "repository", name: route.name, action: actionOf(method) };
  }
}

function actionOf(method: string): Action {
  if (method === "DELETE") return "delete";
  return method === "GET" || method === "HEAD" || method === "OPTIONS" ? "pull" : "push";
}
