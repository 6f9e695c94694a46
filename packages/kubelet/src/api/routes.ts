/** The kubelet's paths. A name in a path is percent-decoded; whatever does not fit is no route of ours. */
import type { ObjectKey } from "@cocoon/kube";
import type { ContainerTarget } from "../provider.ts";

const documents = {
  "/healthz": "healthz",
  "/healthz/ping": "healthz",
  "/healthz/syncloop": "healthz",
  "/pods": "pods",
  "/runningpods": "runningPods",
  "/stats/summary": "stats",
  "/metrics": "metrics",
  "/metrics/resource": "resourceMetrics",
  "/metrics/cadvisor": "cadvisorMetrics",
  "/configz": "configz",
} as const;

export type Route =
  | { readonly kind: (typeof documents)[keyof typeof documents] }
  | { readonly kind: "logs" | "exec" | "attach"; readonly target: ContainerTarget }
  | { readonly kind: "portForward"; readonly pod: ObjectKey };

const targeted: Readonly<Record<string, "logs" | "exec" | "attach">> = {
  containerLogs: "logs",
  exec: "exec",
  attach: "attach",
};

export function findRoute(path: string): Route | undefined {
  const trimmed = path.length > 1 && path.endsWith("/") ? path.slice(0, -1) : path;
  if (Object.hasOwn(documents, trimmed)) return { kind: documents[trimmed as keyof typeof documents] };
  const [, first = "", ...rest] = trimmed.split("/");
  const names = rest.map(decode);
  if (names.some((name) => name === undefined || name === "")) return undefined;
  if (first === "portForward") return portForwardRoute(names as string[]);
  const kind = Object.hasOwn(targeted, first) ? targeted[first] : undefined;
  return kind ? targetedRoute(kind, names as string[]) : undefined;
}

/** {namespace}/{pod}/{container}, or with the pod's uid before the container. */
function targetedRoute(kind: "logs" | "exec" | "attach", names: readonly string[]): Route | undefined {
  const [namespace, name] = names;
  const container = names.at(-1);
  const fits = names.length === 3 || (names.length === 4 && kind !== "logs");
  if (!fits || namespace === undefined || name === undefined || container === undefined) return undefined;
  return { kind, target: { pod: { namespace, name }, container } };
}

function portForwardRoute(names: readonly string[]): Route | undefined {
  const [namespace, name] = names;
  if (namespace === undefined || name === undefined || names.length > 3) return undefined;
  return { kind: "portForward", pod: { namespace, name } };
}

function decode(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined; // a lone percent sign is no name
  }
}
