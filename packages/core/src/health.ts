/**
 * Health, readiness and metrics on one plain HTTP listener; first up and last down.
 *
 *   /healthz, /livez   the process answers
 *   /readyz            every check passes, the server was marked ready and is not stopping
 *   /metrics           Prometheus text
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Registry } from "prom-client";
import { getErrorMessage } from "./fault.ts";
import { startHttpServer } from "./http-server.ts";

/** Throws, or returns a text, when the program cannot serve. */
export type ReadyCheck = () => void | string | Promise<void | string>;

export interface HealthOptions {
  readonly host: string;
  readonly port: number;
  readonly registry?: Registry;
  readonly checks?: Readonly<Record<string, ReadyCheck>>;
  readonly checkTimeoutMs?: number;
}

export interface HealthServer extends AsyncDisposable {
  readonly port: number;
  readonly url: string;
  addCheck(name: string, check: ReadyCheck): void;
  markReady(): void;
  /** Not ready any more, whatever the checks say: load balancers stop sending requests while the program drains. */
  markStopping(): void;
}

export async function startHealthServer(options: HealthOptions): Promise<HealthServer> {
  const checks = new Map(Object.entries(options.checks ?? {}));
  let state: "starting" | "ready" | "stopping" = "starting";
  const timeoutMs = options.checkTimeoutMs ?? 5_000;

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = (request.url ?? "/").split("?")[0];
    if (path === "/healthz" || path === "/livez" || path === "/health") return send(response, 200, "ok");
    if (path === "/readyz") return send(response, ...(await readiness(state, checks, timeoutMs)));
    if (path === "/metrics" && options.registry) {
      response.setHeader("content-type", options.registry.contentType);
      response.end(await options.registry.metrics());
      return;
    }
    send(response, 404, "not found");
  }

  const server = await startHttpServer({
    name: "health server",
    host: options.host,
    port: options.port,
    drainMs: 1_000,
    handler: (request, response) => {
      answer(request, response).catch((error: unknown) => send(response, 500, getErrorMessage(error)));
    },
  });
  return {
    port: server.port,
    url: server.url,
    addCheck: (name, check) => void checks.set(name, check),
    markReady: () => void (state = "ready"),
    markStopping: () => void (state = "stopping"),
    [Symbol.asyncDispose]: () => server.stop(),
  };
}

function send(response: ServerResponse, status: number, text: string): void {
  response.writeHead(status, { "content-type": "text/plain; charset=utf-8" });
  response.end(`${text}\n`);
}

async function readiness(
  state: string,
  checks: ReadonlyMap<string, ReadyCheck>,
  timeoutMs: number,
): Promise<[number, string]> {
  const results = await Promise.all([...checks].map(([name, check]) => runCheck(name, check, timeoutMs)));
  const lines = [state === "ready" ? "[+] started" : `[-] ${state}`, ...results.map((result) => result.line)];
  const ready = state === "ready" && results.every((result) => result.ok);
  return [ready ? 200 : 503, lines.join("\n")];
}

async function runCheck(
  name: string,
  check: ReadyCheck,
  timeoutMs: number,
): Promise<{ ok: boolean; line: string }> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<string>((resolve) => {
    timer = setTimeout(() => resolve(`no answer within ${timeoutMs} ms`), timeoutMs);
  });
  try {
    const problem = await Promise.race([Promise.resolve(check()), late]);
    return problem ? { ok: false, line: `[-] ${name}: ${problem}` } : { ok: true, line: `[+] ${name}` };
  } catch (error) {
    return { ok: false, line: `[-] ${name}: ${getErrorMessage(error)}` };
  } finally {
    clearTimeout(timer);
  }
}
