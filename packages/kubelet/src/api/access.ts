/**
 * Access to the kubelet API: a client certificate of the cluster's CA or a bearer token, authorised by SubjectAccessReview on
 * `nodes/<subresource>` (`nodes/proxy` last). Opening a stream always needs `create`: a WebSocket upgrade is a GET, and `get` on
 * `nodes/proxy` must not be enough to run a command.
 */
import { createHash } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { TLSSocket } from "node:tls";
import { isFault, type Logger } from "@cocoon/core";
import { findAccessRefusal, findTokenUser, type KubeClient, type KubeUser } from "@cocoon/kube";

/** Undefined: not authenticated. Throws `unavailable` when the lookup failed. */
export type Authenticator = (request: IncomingMessage) => Promise<KubeUser | undefined>;

const rememberMs = 2 * 60_000;

/** The TLS layer has verified the certificate against the client CA already; here it becomes a user. */
function clientCertificateUser(request: IncomingMessage): KubeUser | undefined {
  const { socket } = request;
  if (!(socket instanceof TLSSocket) || !socket.authorized) return undefined;
  const subject = socket.getPeerCertificate().subject as
    | { readonly CN?: string; readonly O?: string | string[] }
    | undefined;
  if (!subject?.CN) return undefined;
  const groups = subject.O === undefined ? [] : Array.isArray(subject.O) ? subject.O : [subject.O];
  return { username: subject.CN, groups: [...groups, "system:authenticated"] };
}

export function createAuthenticator(client: KubeClient, log: Logger): Authenticator {
  // Keyed by hash: a heap dump of ours must not be a list of tokens.
  const known = new ExpiringMap<KubeUser | "unknown">(1_000);
  return async (request) => {
    const byCertificate = clientCertificateUser(request);
    if (byCertificate) return byCertificate;
    const token = /^Bearer (\S+)$/.exec(request.headers.authorization ?? "")?.[1];
    if (!token) return undefined;
    const key = createHash("sha256").update(token).digest("base64");
    const user = known.get(key) ?? (await reviewToken(client, token, log));
    known.set(key, user, rememberMs);
    return user === "unknown" ? undefined : user;
  };
}

async function reviewToken(client: KubeClient, token: string, log: Logger): Promise<KubeUser | "unknown"> {
  try {
    return (await findTokenUser(client, token, { signal: AbortSignal.timeout(callMs) })) ?? "unknown";
  } catch (error) {
    if (isFault(error) && !error.traits.retry) {
      log.warn({ code: error.code }, "token review refused");
      return "unknown";
    }
    throw error;
  }
}

export interface AccessRequest {
  readonly method: string;
  readonly path: string;
}

/** Resolves to undefined when allowed, else to the reason. Throws when it could not be found out. */
export type Authorizer = (user: KubeUser, access: AccessRequest) => Promise<string | undefined>;

const callMs = 10_000;
const rememberAllowedMs = 5 * 60_000;
const rememberDeniedMs = 30_000;

const verbs: Readonly<Record<string, string>> = {
  GET: "get",
  HEAD: "get",
  POST: "create",
  PUT: "update",
  PATCH: "patch",
  DELETE: "delete",
};

export function findSubresources(path: string): readonly string[] {
  const first = path.split("/")[1] ?? "";
  if (first === "stats") return ["stats", "proxy"];
  if (first === "metrics") return ["metrics", "proxy"];
  if (first === "logs") return ["log", "proxy"];
  if (first === "healthz" || first === "configz") return [first, "proxy"];
  if (first === "pods" || first === "runningpods") return ["pods", "proxy"];
  return ["proxy"];
}

const streaming = new Set(["exec", "attach", "portForward", "run"]);

export function findVerb({ method, path }: AccessRequest): string {
  return streaming.has(path.split("/")[1] ?? "") ? "create" : (verbs[method] ?? "get");
}

export function createAuthorizer(client: KubeClient, nodeName: string): Authorizer {
  const known = new ExpiringMap<string>(10_000);
  const check = async (user: KubeUser, verb: string, subresource: string): Promise<string> => {
    const key = JSON.stringify([user, verb, subresource]);
    const remembered = known.get(key);
    if (remembered !== undefined) return remembered;
    const attributes = {
      resourceAttributes: { verb, group: "", version: "v1", resource: "nodes", subresource, name: nodeName },
    };
    const options = { signal: AbortSignal.timeout(callMs) };
    const denied = (await findAccessRefusal(client, { user, attributes }, options)) ?? "";
    known.set(key, denied, denied === "" ? rememberAllowedMs : rememberDeniedMs);
    return denied;
  };
  return async (user, access) => {
    const verb = findVerb(access);
    let reason = "";
    for (const subresource of findSubresources(access.path)) {
      reason = await check(user, verb, subresource);
      if (reason === "") return undefined;
    }
    return `Forbidden (user=${user.username}, verb=${verb}, resource=nodes, subresource(s)=[${findSubresources(access.path).join(" ")}]): ${reason}`;
  };
}

/** A bounded map whose entries are forgotten after a while; the oldest goes when it is full. */
export class ExpiringMap<T> {
  readonly #entries = new Map<string, { readonly value: T; readonly until: number }>();
  readonly #capacity: number;
  readonly #now: () => number;

  constructor(capacity: number, now: () => number = Date.now) {
    this.#capacity = capacity;
    this.#now = now;
  }

  get(key: string): T | undefined {
    const entry = this.#entries.get(key);
    return entry && entry.until > this.#now() ? entry.value : undefined;
  }

  set(key: string, value: T, keepMs: number): void {
    this.#entries.delete(key);
    this.#entries.set(key, { value, until: this.#now() + keepMs });
    const oldest = this.#entries.keys().next().value;
    if (this.#entries.size > this.#capacity && oldest !== undefined) this.#entries.delete(oldest);
  }
}
