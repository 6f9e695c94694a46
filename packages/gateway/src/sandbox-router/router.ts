/**
 * The router of agent-sandbox: requests with headers `X-Sandbox-…` go to a port of the Sandbox's machine, through the API server.
 * Port 8888 of a machine that declares no such port is the runtime, served through the guest's agent.
 */
import { createHash } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { pipeline } from "node:stream/promises";
import { annotation, findSandboxOwner, sandboxKind } from "@cocoon/contract";
import { sandboxLabel } from "@cocoon/contract/agent-sandbox";
import {
  getErrorMessage,
  ignoreFault,
  isFault,
  startHttpServer,
  tryParseJson,
  type Abortable,
  type Logger,
  type RunningServer,
} from "@cocoon/core";
import {
  findAccessRefusal,
  findTokenUser,
  pods as podType,
  resourceType,
  type KubeConnection,
  type KubeObject,
  type Pod,
} from "@cocoon/kube";
import { PodAccess, type PodTarget } from "../cluster/pod-access.ts";
import { Guest } from "../guest/guest.ts";
import { guestPort } from "../guest/protocol.ts";
import { ApiError } from "../http/answer.ts";
import { forwardRequest, forwardUpgrade, hasBody, type UpgradeEnds } from "../http/forward.ts";
import { ensureSeed } from "../sandboxes/seed.ts";
import { Tokens } from "../sandboxes/tokens.ts";
import { RouterError, sendRouterError } from "./router-error.ts";
import { readRouterTarget, type RouterTarget } from "./router-target.ts";
import { runtimePort, serveRuntime } from "./runtime-routes.ts";

export interface RouterOptions {
  readonly client: KubeConnection;
  readonly listen: { readonly host: string; readonly port: number };
  /** `token`: a bearer token of a user that may patch the Sandbox. `none`: all that reach the listener. */
  readonly authorization: "token" | "none";
  readonly seedSecret: string;
  readonly maxUploadBytes: number;
  readonly log: Logger;
  readonly signal: AbortSignal;
}

interface Place {
  readonly pod: Pod;
  readonly target: PodTarget;
  readonly sandboxUid: string;
}

interface SandboxObject extends KubeObject {
  readonly status?: { readonly podIPs?: readonly string[] };
}

const sandboxes = resourceType<SandboxObject>({
  ...sandboxKind,
  namespaced: true,
});
const serveCommand = ["/proc/self/exe", "serve"];
/** How long a token and its right are believed. */
const believedMs = 30_000;
const maxBelieved = 10_000;
const dialAttempts = 3;

export async function startSandboxRouter(options: RouterOptions): Promise<RunningServer & AsyncDisposable> {
  const { client, signal } = options;
  const tokens = new Tokens(await ensureSeed(client, options.seedSecret, { signal }));
  const router = new SandboxRouter(options, tokens);
  const server = await startHttpServer({
    name: "sandbox-router",
    ...options.listen,
    requestTimeoutMs: 0,
    stallTimeoutMs: 600_000,
    handler: (request, response) => void router.serve(request, response),
  });
  server.server.on("upgrade", (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    void router.upgrade(request, { socket, head });
  });
  return server;
}

class SandboxRouter {
  readonly #options: RouterOptions;
  readonly #tokens: Tokens;
  readonly #pods: PodAccess;
  readonly #believed = new Map<string, number>();

  constructor(options: RouterOptions, tokens: Tokens) {
    this.#options = options;
    this.#tokens = tokens;
    this.#pods = new PodAccess(options.client);
    options.signal.addEventListener("abort", () => this.#pods[Symbol.dispose](), { once: true });
  }

  async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const left = new AbortController();
    response.once("close", () => left.abort(new Error("the client left")));
    const { signal } = left;
    try {
      if (request.method === "GET" && request.url === "/healthz" && !request.headers["x-sandbox-id"]) {
        response.writeHead(200, { "content-type": "application/json" }).end('{"status":"ok"}');
        return;
      }
      const target = readRouterTarget(request.headers);
      const place = await this.#admit(request, target, { signal });
      if (target.port === runtimePort && !declares(place.pod, runtimePort))
        await serveRuntime({
          request,
          response,
          guest: this.#openGuest(place),
          signal,
          maxUploadBytes: this.#options.maxUploadBytes,
        });
      else await this.#proxy(request, response, { place, port: target.port, signal });
    } catch (error) {
      if (!signal.aborted) sendRouterError(response, this.#explain(error, request));
    }
  }

  async upgrade(request: IncomingMessage, ends: UpgradeEnds): Promise<void> {
    const { socket } = ends;
    const left = new AbortController();
    socket.once("close", () => left.abort(new Error("the client left"))).on("error", () => socket.destroy());
    try {
      const target = readRouterTarget(request.headers);
      const { signal } = left;
      const place = await this.#admit(request, target, { signal });
      const { stream, release } = await this.#pods.connect(place.target, target.port, { signal });
      forwardUpgrade(request, ends, {
        stream,
        headers: rawHeaders(request),
        onClose: () => release(false),
      });
    } catch (error) {
      const { status, message, field } = this.#explain(error, request);
      const text = JSON.stringify({ [field]: message });
      socket.end(
        `HTTP/1.1 ${status} Error\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(text)}\r\nConnection: close\r\n\r\n${text}`,
      );
    }
  }

  async #admit(request: IncomingMessage, target: RouterTarget, options: Abortable): Promise<Place> {
    await this.#authorize(request, target, options);
    const { client } = this.#options;
    const { namespace, name } = target;
    const sandbox = await ignoreFault("notFound", client.get(sandboxes, { namespace, name }, options));
    const pod = sandbox && (await ignoreFault("notFound", client.get(podType, { namespace, name }, options)));
    if (!sandbox || !pod || findSandboxOwner(pod)?.uid !== sandbox.metadata.uid) throw unreachable(name);
    if (!isAddressed(sandbox, target)) throw unreachable(name);
    return { pod, sandboxUid: sandbox.metadata.uid ?? "", target: { namespace, pod: name, headers: {} } };
  }

  /** A user that may suspend a Sandbox may use it. */
  async #authorize(
    { headers }: IncomingMessage,
    { namespace, name }: RouterTarget,
    { signal }: Abortable,
  ): Promise<void> {
    if (this.#options.authorization === "none") return;
    const [, token] = /^Bearer (\S+)$/i.exec(headers.authorization ?? "") ?? [];
    if (!token) throw new RouterError(401, "Authorization: a bearer token of the cluster is required");
    const key = createHash("sha256").update(`${namespace}\0${name}\0${token}`).digest("base64");
    if ((this.#believed.get(key) ?? 0) > Date.now()) return;
    const { client } = this.#options;
    const user = await findTokenUser(client, token, { signal });
    if (!user) throw new RouterError(401, "the token is not valid");
    const { group, version, plural: resource } = sandboxKind;
    const resourceAttributes = { namespace, name, verb: "patch", group, version, resource };
    const refusal = await findAccessRefusal(client, { user, attributes: { resourceAttributes } }, { signal });
    if (refusal !== undefined)
      throw new RouterError(403, `the user may not patch Sandbox ${namespace}/${name}: ${refusal}`);
    if (this.#believed.size >= maxBelieved) this.#believed.clear();
    this.#believed.set(key, Date.now() + believedMs);
  }

  #openGuest({ target, sandboxUid, pod }: Place): Guest {
    const owner = { namespace: target.namespace, id: sandboxUid };
    const token = this.#tokens.compute("guest", owner);
    const env = Object.entries(readEnvironment(pod)).map(([name, value]) => `${name}=${value}`);
    const input = `${JSON.stringify({ token, user: "root", env })}\n`;
    return new Guest(
      {
        connect: (options) => this.#pods.connect(target, guestPort, options),
        prepare: (options) => this.#pods.run(target, { command: serveCommand, input }, options),
      },
      token,
    );
  }

  async #proxy(
    request: IncomingMessage,
    response: ServerResponse,
    { place, port, signal }: Abortable & { readonly place: Place; readonly port: number },
  ): Promise<void> {
    for (let attempt = 1; ; attempt += 1) {
      const { stream, release } = await this.#pods.connect(place.target, port, { signal });
      stream.once("close", () => release(true));
      const answer = await forwardRequest(request, stream, forwardedHeaders(request));
      if (answer) {
        response.writeHead(answer.statusCode ?? 502, answer.statusMessage, answer.rawHeaders);
        await pipeline(answer, response);
        return;
      }
      if (hasBody(request) || attempt > dialAttempts) throw unreachable(place.target.pod);
      await new Promise((resolve) => setTimeout(resolve, 100 * 2 ** attempt));
    }
  }

  #explain(error: unknown, { headers }: IncomingMessage): RouterError {
    if (error instanceof RouterError) return error;
    if (error instanceof ApiError) return new RouterError(error.status, error.message, "message");
    const id = String(headers["x-sandbox-id"] ?? "");
    this.#options.log.info({ sandbox: id, error: getErrorMessage(error) }, "request to a Sandbox failed");
    if (isFault(error, "forbidden")) return new RouterError(403, getErrorMessage(error));
    return unreachable(id);
  }
}

/** A member of a warm pool is reached once a claim has it. What the client remembers must be of this very Sandbox. */
function isAddressed({ metadata, status }: SandboxObject, { uid, podIp }: RouterTarget): boolean {
  if (metadata.labels?.[sandboxLabel.warmPool] !== undefined) return false;
  if (uid !== undefined && uid !== metadata.uid) return false;
  const addresses = status?.podIPs ?? [];
  return podIp === undefined || addresses.length === 0 || addresses.includes(podIp);
}

function unreachable(id: string): RouterError {
  return new RouterError(502, `Could not connect to the backend sandbox: ${id}`);
}

function declares({ spec }: Pod, port: number): boolean {
  return spec?.containers.some(({ ports }) => ports?.some((each) => each.containerPort === port)) ?? false;
}

function readEnvironment({ metadata, spec }: Pod): Readonly<Record<string, string>> {
  const own = (spec?.containers[0]?.env ?? []).flatMap(({ name, value }) =>
    value === undefined ? [] : [[name, value] as const],
  );
  const given = tryParseJson(metadata.annotations?.[annotation.env] ?? "{}") as Record<string, string>;
  return { ...Object.fromEntries(own), ...given };
}

const dropped = new Set([
  "host",
  "authorization",
  "connection",
  "upgrade",
  "keep-alive",
  "transfer-encoding",
]);

function forwardedHeaders({ headers, socket }: IncomingMessage): Record<string, string | string[]> {
  const kept = Object.entries(headers).filter(
    (entry): entry is [string, string | string[]] => entry[1] !== undefined && !dropped.has(entry[0]),
  );
  return {
    ...Object.fromEntries(kept),
    host: "localhost",
    connection: "close",
    "x-forwarded-for": socket.remoteAddress ?? "",
    "x-forwarded-host": headers.host ?? "",
    "x-forwarded-proto": "http",
    ...(headers["transfer-encoding"] ? { "transfer-encoding": "chunked" } : {}),
  };
}

function rawHeaders({ rawHeaders: raw }: IncomingMessage): string {
  let text = "Host: localhost\r\n";
  for (let index = 0; index + 1 < raw.length; index += 2) {
    const name = raw[index] ?? "";
    if (["host", "authorization", "origin"].includes(name.toLowerCase())) continue;
    text += `${name}: ${raw[index + 1] ?? ""}\r\n`;
  }
  return text;
}
