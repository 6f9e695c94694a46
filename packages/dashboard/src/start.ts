/** The dashboard as one server: page, sign-in, live stream, proxy. */
import { randomBytes } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import type { IncomingMessage } from "node:http";
import type { ServerOptions } from "node:https";
import type { Duplex } from "node:stream";
import { Fault, readListenAddress, startHttpServer, type Logger, type RunningServer } from "@cocoon/core";
import { openKubeClient, readApiEndpoint } from "@cocoon/kube";
import { StreamProxy } from "./api/stream-proxy.ts";
import { Upstream } from "./api/upstream.ts";
import { OidcLogin } from "./auth/oidc.ts";
import { SessionCookies } from "./auth/session-cookies.ts";
import { SignIn } from "./auth/sign-in.ts";
import { builtPage, type DashboardConfig } from "./config.ts";
import { PortLinks } from "./gateway/port-links.ts";
import { StaticFiles } from "./http/static-files.ts";
import { PartMetrics, readTargets } from "./metrics/part-metrics.ts";
import { RegistryClient } from "./registry/registry-client.ts";
import { RegistryView } from "./registry/registry-view.ts";
import { Router } from "./router.ts";

export interface DashboardOptions {
  readonly config: DashboardConfig;
  readonly log: Logger;
  readonly signal: AbortSignal;
}

export interface RunningDashboard extends AsyncDisposable {
  readonly server: RunningServer;
  readonly url: string;
}

/** A live stream that shows nothing new moves hardly a byte. */
const openPageMs = 24 * 3_600_000;

export async function startDashboard(options: DashboardOptions): Promise<RunningDashboard> {
  const { config, log } = options;
  const stopping = new AbortController();
  const signal = AbortSignal.any([options.signal, stopping.signal]);
  await using stack = new AsyncDisposableStack();
  const { kubeconfig, context, readOnly } = config;
  const target = { ...(kubeconfig ? { kubeconfig } : {}), ...(context ? { context } : {}) };
  const listen = readListenAddress(config.listenAddr, "--listen-addr");
  const tls = readTls(config, listen.host);
  const upstream = stack.use(new Upstream(await readApiEndpoint(target)));
  const key = readKey(config, log);
  const cookies = new SessionCookies({
    key,
    secure: tls !== undefined || config.behindProxy,
  });
  const proxy = { upstream, readOnly, signal };
  const running: { server?: RunningServer } = {};
  const router = new Router({
    ...proxy,
    files: await openPage(config, log),
    cookies,
    log,
    signIn: new SignIn({
      upstream,
      cookies,
      sessionTimeMs: config.sessionTime,
      oidc: openOidc(config, key),
      signal,
    }),
    streams: stack.use(new StreamProxy({ ...proxy, log })),
    metrics: stack.use(new PartMetrics(readTargets(config.metricsTargets), log)),
    ports: config.gateway === undefined ? undefined : new PortLinks(config.gateway),
    registry: openRegistry(config, upstream),
    openClient: (bearerToken, until) =>
      openKubeClient({ ...target, bearerToken, log, signal: until, userAgent: "cocoon-dashboard" }),
    keepOpen: ({ socket }) => running.server?.setStallTimeout(socket, openPageMs),
  });
  const server = stack.use(
    await startHttpServer({
      name: "dashboard",
      ...listen,
      ...(tls ? { tls } : {}),
      drainMs: 2_000,
      handler: (request, response) => router.handle(request, response),
    }),
  );
  running.server = server;
  server.server.on("upgrade", (request: IncomingMessage, socket: Duplex, head: Buffer) =>
    router.upgrade(request, socket, head),
  );
  stack.defer(() => stopping.abort()); // first of all: open pages would keep the server from stopping
  const kept = stack.move();
  return { server, url: server.url, [Symbol.asyncDispose]: () => kept.disposeAsync() };
}

/** A checkout that runs its sources may have no page yet; everything else of the server works without. */
function openPage({ page }: DashboardConfig, log: Logger): Promise<StaticFiles> {
  if (page !== "" || existsSync(builtPage)) return StaticFiles.open(page || builtPage);
  log.warn({ path: builtPage }, "the page is not built, run: npm run build");
  return Promise.resolve(StaticFiles.empty());
}

function openOidc(config: DashboardConfig, key: Uint8Array): OidcLogin | undefined {
  const { oidcIssuer: issuer, oidcClientId: clientId } = config;
  if (!issuer && !clientId) return undefined;
  if (!issuer || !clientId)
    throw new Fault("invalid", "--oidc-issuer and --oidc-client-id belong together; set both");
  return new OidcLogin({
    issuer,
    clientId,
    clientSecret: config.oidcClientSecret,
    scopes: config.oidcScopes,
    caFile: config.oidcCaCert,
    key,
  });
}

function openRegistry(
  { registry, registryToken, registryCaCert }: DashboardConfig,
  upstream: Upstream,
): RegistryView | undefined {
  if (!registry) return undefined;
  const client = new RegistryClient({ address: registry, token: registryToken, caFile: registryCaCert });
  return new RegistryView(client, upstream);
}

function readKey({ sessionKey }: DashboardConfig, log: Logger): Uint8Array {
  if (sessionKey !== undefined) return Buffer.from(sessionKey, "hex");
  log.info("no session key is set: users are signed out when this program restarts");
  return randomBytes(32);
}

function readTls({ tlsCert, tlsKey, behindProxy }: DashboardConfig, host: string): ServerOptions | undefined {
  if (tlsCert && tlsKey) return { cert: readFileSync(tlsCert), key: readFileSync(tlsKey) };
  if (tlsCert || tlsKey) throw new Fault("invalid", "--tls-cert and --tls-key belong together; set both");
  if (behindProxy || /^(127\.|::1$|localhost$)/.test(host)) return undefined;
  throw new Fault(
    "invalid",
    `--listen-addr ${host} is reachable from other machines: set --tls-cert and --tls-key, or --behind-proxy where a proxy ends TLS`,
  );
}
