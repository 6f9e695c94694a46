/** Requests to the dashboard's server, and through it to the API server. */
import type { HealthData, Me, RegistryData, SignInMethods, SnapshotRow } from "../../../src/shared/rows.ts";
import { texts } from "../texts.ts";

export interface FieldProblem {
  readonly field: string;
  readonly message: string;
}

export class ApiError extends Error {
  readonly status: number;
  readonly reason: string;
  readonly problems: readonly FieldProblem[];

  constructor(status: number, { message, reason = "", problems = [] }: ErrorText) {
    super(message);
    this.status = status;
    this.reason = reason;
    this.problems = problems;
  }
}

interface ErrorText {
  readonly message: string;
  readonly reason?: string;
  readonly problems?: readonly FieldProblem[];
}

interface Status {
  readonly message?: string;
  readonly reason?: string;
  readonly details?: { readonly causes?: readonly { readonly field?: string; readonly message?: string }[] };
}

export interface ApiRequest {
  readonly method?: "GET" | "POST" | "PATCH" | "DELETE";
  readonly body?: unknown;
  readonly contentType?: string;
  readonly signal?: AbortSignal;
}

const apiPrefix = "/api/k8s";

/** The server answers so when the session ended; the page then shows the sign-in. */
export const signedOutEvent = "cocoon-signed-out";

async function send(path: string, request: ApiRequest = {}): Promise<Response> {
  const { method = "GET", body, contentType = "application/json", signal } = request;
  const headers: Record<string, string> = { "x-cocoon-dashboard": "1" };
  if (body !== undefined) headers["content-type"] = contentType;
  let response: Response;
  try {
    response = await fetch(path, {
      method,
      headers,
      credentials: "same-origin",
      ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
      ...(signal ? { signal } : {}),
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError(0, { message: texts.error.network });
  }
  if (response.ok) return response;
  if (response.status === 401 && !path.startsWith("/auth/"))
    globalThis.dispatchEvent(new Event(signedOutEvent));
  throw await readError(response);
}

async function readError(response: Response): Promise<ApiError> {
  const text = await response.text();
  let status: Status = {};
  try {
    status = JSON.parse(text) as Status;
  } catch {
    // not JSON: a proxy in between answered
  }
  const causes = status.details?.causes ?? [];
  return new ApiError(response.status, {
    message: status.message ?? `${response.status} ${response.statusText}`,
    reason: status.reason ?? "",
    problems: causes.map(({ field = "", message = "" }) => ({ field, message })),
  });
}

async function sendForJson<T>(path: string, request?: ApiRequest): Promise<T> {
  return (await (await send(path, request)).json()) as T;
}

/** A request to the API server, as the signed-in user. */
export function kube<T = unknown>(path: string, request?: ApiRequest): Promise<T> {
  return sendForJson<T>(`${apiPrefix}${path}`, request);
}

export function kubeStream(path: string, signal: AbortSignal): Promise<Response> {
  return send(`${apiPrefix}${path}`, { signal });
}

export function kubeSocketUrl(path: string): string {
  const { protocol, host } = globalThis.location;
  return `${protocol === "https:" ? "wss:" : "ws:"}//${host}${apiPrefix}${path}`;
}

export function mergePatch(path: string, body: unknown): Promise<unknown> {
  return kube(path, { method: "PATCH", body, contentType: "application/merge-patch+json" });
}

interface PortTarget {
  readonly namespace: string;
  readonly machine: string;
  readonly port: number;
}

export const session = {
  me: (): Promise<Me> => sendForJson<Me>("/api/me"),
  signIn: (token: string): Promise<Response> => send("/auth/token", { method: "POST", body: { token } }),
  redeem: (code: string): Promise<Response> => send("/auth/redeem", { method: "POST", body: { code } }),
  methods: (): Promise<SignInMethods> => sendForJson<SignInMethods>("/auth/methods", { method: "POST" }),
  startOidc: (): Promise<{ readonly url: string }> =>
    sendForJson<{ readonly url: string }>("/auth/oidc/start", { method: "POST" }),
  finishOidc: (code: string, state: string): Promise<Response> =>
    send("/auth/oidc/finish", { method: "POST", body: { code, state } }),
  signOut: (): Promise<Response> => send("/auth/sign-out", { method: "POST" }),
  snapshots: (namespace: string, set: string): Promise<readonly SnapshotRow[]> =>
    sendForJson<readonly SnapshotRow[]>(
      `/api/snapshots?${new URLSearchParams({ namespace, set }).toString()}`,
    ),
  linkPort: (target: PortTarget): Promise<{ readonly url: string }> =>
    sendForJson<{ readonly url: string }>("/api/port-links", { method: "POST", body: target }),
  registry: (): Promise<RegistryData> => sendForJson<RegistryData>("/api/registry"),
  health: (): Promise<HealthData> => sendForJson<HealthData>("/api/health"),
};
