/**
 * Which request goes where:
 *
 *   POST /auth/methods, /auth/token, /auth/link, /auth/redeem, /auth/oidc/start, /auth/oidc/finish, /auth/sign-out
 *   GET  /api/me, /api/live, /api/health, /api/registry, /api/snapshots
 *   POST /api/port-links                      a link to a port of a machine
 *   *    /api/k8s/…                           the API server, as the user
 *   GET  anything else                        the page
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { buildInfo, Fault, type Logger } from "@cocoon/core";
import type { KubeConnection } from "@cocoon/kube";
import { passOn } from "./api/proxy.ts";
import { refuseUpgrade, type StreamProxy } from "./api/stream-proxy.ts";
import type { Upstream } from "./api/upstream.ts";
import type { SessionCookies, SignedIn } from "./auth/session-cookies.ts";
import type { SignIn } from "./auth/sign-in.ts";
import { portLinkSchema, type PortLinks } from "./gateway/port-links.ts";
import { readJson, securityHeaders, sendFault, sendJson } from "./http/answers.ts";
import { assertSameOrigin } from "./http/same-origin.ts";
import type { StaticFiles } from "./http/static-files.ts";
import { serveLive } from "./live/live-stream.ts";
import { assertMaySeeMetrics } from "./metrics/access.ts";
import type { PartMetrics } from "./metrics/part-metrics.ts";
import type { RegistryView } from "./registry/registry-view.ts";
import type { Me } from "./shared/rows.ts";

export interface RouterOptions {
  readonly files: StaticFiles;
  readonly signIn: SignIn;
  readonly cookies: SessionCookies;
  readonly upstream: Upstream;
  readonly streams: StreamProxy;
  readonly metrics: PartMetrics;
  readonly registry: RegistryView | undefined;
  readonly ports: PortLinks | undefined;
  readonly openClient: (token: string, signal: AbortSignal) => Promise<KubeConnection>;
  /** Called for answers that last as long as a page is open. */
  readonly keepOpen: (request: IncomingMessage) => void;
  readonly readOnly: boolean;
  readonly log: Logger;
  readonly signal: AbortSignal;
}

interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly url: URL;
}

const apiPrefix = "/api/k8s";

export class Router {
  readonly #options: RouterOptions;

  constructor(options: RouterOptions) {
    this.#options = options;
  }

  handle(request: IncomingMessage, response: ServerResponse): void {
    for (const [name, value] of Object.entries(securityHeaders)) response.setHeader(name, value);
    this.#route(request, response).catch((error: unknown) => {
      if (!response.writableEnded && !response.destroyed) sendFault(response, error);
    });
  }

  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    socket.on("error", () => socket.destroy());
    this.#acceptStream(request, socket, head).catch((error: unknown) => refuseUpgrade(socket, error));
  }

  async #route(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = readUrl(request);
    const exchange = { request, response, url };
    if (url.pathname.startsWith("/auth/")) return this.#authenticate(exchange);
    if (url.pathname.startsWith("/api/")) return this.#serveApi(exchange);
    if (request.method !== "GET" && request.method !== "HEAD")
      throw new Fault("methodNotAllowed", `${request.method ?? ""} is not for pages`);
    this.#options.files.serve(request, response, url.pathname);
  }

  async #authenticate({ request, response, url }: Exchange): Promise<void> {
    const { signIn } = this.#options;
    if (request.method !== "POST") throw new Fault("methodNotAllowed", "signing in and out is a POST");
    assertSameOrigin(request);
    switch (url.pathname) {
      case "/auth/token":
        return signIn.withToken({ request, response });
      case "/auth/link":
        return signIn.createLink({ request, response });
      case "/auth/redeem":
        return signIn.withLink({ request, response });
      case "/auth/methods":
        return signIn.listMethods({ request, response });
      case "/auth/oidc/start":
        return signIn.startOidc({ request, response });
      case "/auth/oidc/finish":
        return signIn.finishOidc({ request, response });
      case "/auth/sign-out":
        return signIn.signOut({ request, response });
      default:
        throw new Fault("notFound", "there is nothing here");
    }
  }

  async #serveApi({ request, response, url }: Exchange): Promise<void> {
    const user = await this.#assertSignedIn(request);
    assertSameOrigin(request);
    if (url.pathname.startsWith(`${apiPrefix}/`)) return this.#passOn({ request, response, url }, user);
    if (url.pathname === "/api/port-links") return this.#linkPort({ request, response, url }, user);
    if (request.method !== "GET")
      throw new Fault("methodNotAllowed", "only below /api/k8s things are changed");
    return this.#serveOwn({ request, response, url }, user);
  }

  async #serveOwn({ request, response, url }: Exchange, user: SignedIn): Promise<void> {
    const { metrics, openClient, upstream, registry, log, signal } = this.#options;
    switch (url.pathname) {
      case "/api/me":
        return sendJson(response, 200, this.#describe(user));
      case "/api/live":
        this.#options.keepOpen(request);
        return serveLive(
          { response, query: url.searchParams },
          { openClient: (until) => openClient(user.token, until), usage: metrics.usage, log, signal },
        );
      case "/api/health":
        await assertMaySeeMetrics(upstream, user, signal);
        return sendJson(response, 200, metrics.read());
      case "/api/registry":
        await assertMaySeeMetrics(upstream, user, signal);
        return sendJson(response, 200, await assertConfigured(registry).readAll(signal));
      case "/api/snapshots": {
        const query = { namespace: readName(url, "namespace"), set: readName(url, "set") };
        return sendJson(response, 200, await assertConfigured(registry).listOfSet(query, user, signal));
      }
      default:
        throw new Fault("notFound", "there is nothing here");
    }
  }

  async #linkPort({ request, response }: Exchange, user: SignedIn): Promise<void> {
    const { ports, readOnly, signal } = this.#options;
    if (request.method !== "POST") throw new Fault("methodNotAllowed", "a link is made by a POST");
    if (readOnly) throw new Fault("forbidden", "this dashboard is read-only");
    if (!ports) throw new Fault("notFound", "no gateway is configured for this dashboard (--gateway)");
    const url = await ports.create(await readJson(request, portLinkSchema), user, signal);
    sendJson(response, 200, { url });
  }

  #describe({ user, expiresAt }: SignedIn): Me {
    const { readOnly, metrics, registry, ports } = this.#options;
    const { version } = buildInfo();
    return {
      user,
      expiresAt,
      readOnly,
      version,
      hasHealth: metrics.hasTargets,
      hasRegistry: registry !== undefined,
      hasGateway: ports !== undefined,
    };
  }

  #passOn({ request, response, url }: Exchange, user: SignedIn): Promise<void> {
    const path = url.pathname.slice(apiPrefix.length) + url.search;
    if (url.searchParams.get("follow") === "true") this.#options.keepOpen(request);
    return passOn({ request, response, path }, user, this.#options);
  }

  async #acceptStream(request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    assertSameOrigin(request, { upgrade: true });
    const user = await this.#assertSignedIn(request);
    const url = readUrl(request);
    const path = url.pathname.slice(apiPrefix.length) + url.search;
    if (!url.pathname.startsWith(`${apiPrefix}/`)) throw new Fault("notFound", "there is no stream here");
    this.#options.streams.accept({ request, socket, head, path }, user);
  }

  async #assertSignedIn(request: IncomingMessage): Promise<SignedIn> {
    const user = await this.#options.cookies.read(request, Math.floor(Date.now() / 1000));
    if (!user) throw new Fault("unauthorized", "sign in first");
    return user;
  }
}

function assertConfigured(registry: RegistryView | undefined): RegistryView {
  if (registry) return registry;
  throw new Fault("notFound", "no registry is configured for this dashboard (--registry)");
}

const dnsName = /^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/;

function readName(url: URL, field: string): string {
  const name = url.searchParams.get(field) ?? "";
  if (dnsName.test(name)) return name;
  throw new Fault("badRequest", `${field} is not a name of Kubernetes`);
}

function readUrl(request: IncomingMessage): URL {
  // Dots and encoded slashes are resolved here, before anything is compared with the path.
  const url = URL.parse(request.url ?? "/", "http://page");
  if (url === null || url.host !== "page" || /%2f|%5c|%00/i.test(url.pathname))
    throw new Fault("badRequest", "the address of the request is malformed");
  return url;
}
