/** Which requests reach a sandbox: those with its token, or all where it was made so. A sleeping one is woken only where it was made so. */
import type { IncomingMessage } from "node:http";
import type { Abortable } from "@cocoon/core";
import { guestPort } from "../guest/protocol.ts";
import type { Guests } from "../sandboxes/guests.ts";
import type { Lifecycle } from "../sandboxes/lifecycle.ts";
import type { Sandbox } from "../sandboxes/sandbox.ts";
import type { SandboxStore } from "../sandboxes/store.ts";
import type { Tokens } from "../sandboxes/tokens.ts";
import { sandboxNotFound, TrafficError } from "./data-plane.ts";
import type { Route } from "./route.ts";
import type { SandboxTarget } from "./target.ts";
import type { WakeGate } from "./wake-gate.ts";

export interface SandboxAdmissionOptions {
  readonly store: SandboxStore;
  readonly guests: Guests;
  readonly tokens: Tokens;
  readonly lifecycle: Lifecycle;
  readonly gate: WakeGate<Sandbox>;
}

export class SandboxAdmission {
  readonly #options: SandboxAdmissionOptions;

  constructor(options: SandboxAdmissionOptions) {
    this.#options = options;
  }

  async admit(request: IncomingMessage, { id, port }: SandboxTarget, options: Abortable): Promise<Route> {
    const sandbox = this.#options.store.tryFind(id);
    if (!sandbox || (sandbox.state === "paused" && !sandbox.spec.autoResume)) throw sandboxNotFound();
    if (port !== guestPort) this.#assertTraffic(request, sandbox);
    if (sandbox.isReady) return this.#route(sandbox, port);
    // "Does it run?" is not held until it does.
    if (sandbox.state === "running" && port === guestPort && isHealthCheck(request)) throw sandboxNotFound();
    if (sandbox.state === "paused" && port === guestPort) this.#assertWaker(request, sandbox);
    const { lifecycle, gate } = this.#options;
    const { machine, turn } = await gate.pass({
      key: `${sandbox.namespace}/${sandbox.id}`,
      wake: (call) => lifecycle.wake(sandbox, call),
      signal: options.signal,
    });
    return { ...this.#route(machine, port), turn };
  }

  #route(sandbox: Sandbox, port: number): Route {
    const { guests } = this.#options;
    return {
      ...(port === guestPort ? { envdOf: sandbox } : {}),
      connect: ({ signal }) => guests.connect(sandbox, { port, signal }),
      track: () => guests.track(sandbox),
    };
  }

  #assertTraffic(request: IncomingMessage, sandbox: Sandbox): void {
    if (sandbox.spec.publicTraffic) return;
    const token = String(request.headers["e2b-traffic-access-token"] ?? "");
    if (!this.#options.tokens.matches("traffic", sandbox, token))
      throw new TrafficError(403, "the header e2b-traffic-access-token is missing or wrong");
  }

  /** Only a client of the sandbox may wake it. */
  #assertWaker(request: IncomingMessage, sandbox: Sandbox): void {
    const token = String(request.headers["x-access-token"] ?? "");
    if (sandbox.spec.secure && !this.#options.tokens.matches("envd", sandbox, token))
      throw new TrafficError(403, "the header X-Access-Token is missing or wrong");
  }
}

function isHealthCheck({ url = "" }: IncomingMessage): boolean {
  return url.split("?", 1)[0] === "/health";
}
