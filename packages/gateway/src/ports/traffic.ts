/** Requests for sandboxes: to their envd, or to any of their ports. Private unless asked otherwise; may wake a machine. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { getErrorMessage, type Abortable, type Logger } from "@cocoon/core";
import type { EnvdRoutes } from "../envd/routes.ts";
import { guestPort } from "../guest/protocol.ts";
import { ApiError } from "../http/answer.ts";
import type { Guests } from "../sandboxes/guests.ts";
import type { Sandbox } from "../sandboxes/sandbox.ts";
import type { SandboxStore } from "../sandboxes/store.ts";
import type { Tokens } from "../sandboxes/tokens.ts";
import { sandboxNotFound, sendTrafficError, TrafficError } from "./data-plane.ts";
import type { PortProxy } from "./proxy.ts";
import type { TrafficTarget } from "./target.ts";
import type { WakeGate } from "./wake-gate.ts";

export interface TrafficOptions {
  readonly store: SandboxStore;
  readonly guests: Guests;
  readonly tokens: Tokens;
  readonly gate: WakeGate;
  readonly envd: EnvdRoutes;
  readonly proxy: PortProxy;
  readonly log: Logger;
}

export class Traffic {
  readonly #options: TrafficOptions;

  constructor(options: TrafficOptions) {
    this.#options = options;
  }

  async serve(request: IncomingMessage, response: ServerResponse, target: TrafficTarget): Promise<void> {
    const left = new AbortController();
    response.once("close", () => left.abort(new Error("the client left")));
    try {
      const sandbox = await this.#admit(request, target, left);
      if (target.port === guestPort) return await this.#options.envd.serve(request, response, sandbox);
      const stream = this.#options.guests.track(sandbox);
      response.once("close", () => stream.abort());
      await this.#options.proxy.serve(request, response, {
        sandbox,
        port: target.port,
        signal: stream.signal,
      });
    } catch (error) {
      if (left.signal.aborted) return;
      sendTrafficError(response, this.#explain(error, target), target);
    }
  }

  async upgrade(
    request: IncomingMessage,
    ends: { readonly socket: Duplex; readonly head: Buffer },
    target: TrafficTarget,
  ): Promise<void> {
    const left = new AbortController();
    const { socket } = ends;
    socket.once("close", () => left.abort(new Error("the client left")));
    try {
      const sandbox = await this.#admit(request, target, left);
      if (target.port === guestPort) throw new TrafficError(404, "not found");
      const stream = this.#options.guests.track(sandbox);
      socket.once("close", () => stream.abort());
      await this.#options.proxy.upgrade(request, ends, { sandbox, port: target.port, signal: stream.signal });
    } catch (error) {
      const { status, message } = this.#explain(error, target);
      const text = JSON.stringify({ sandboxId: target.id, message, code: status });
      socket.end(
        `HTTP/1.1 ${status} Error\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(text)}\r\nConnection: close\r\n\r\n${text}`,
      );
    }
  }

  /** The sandbox, ready for the request. */
  async #admit(
    request: IncomingMessage,
    { id, port }: TrafficTarget,
    { signal }: Abortable,
  ): Promise<Sandbox> {
    const { store, gate } = this.#options;
    const sandbox = store.tryFind(id);
    if (!sandbox || (sandbox.state === "paused" && !sandbox.spec.autoResume)) throw sandboxNotFound();
    if (port !== guestPort) this.#assertTraffic(request, sandbox);
    if (sandbox.isReady) return sandbox;
    if (sandbox.state === "paused" && port === guestPort) this.#assertWaker(request, sandbox);
    return gate.pass(sandbox, { signal });
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

  #explain(error: unknown, { id, port }: TrafficTarget): TrafficError {
    if (error instanceof TrafficError) return error;
    if (error instanceof ApiError)
      return new TrafficError(
        error.status === 404 ? 502 : error.status,
        error.status === 404 ? "The sandbox was not found" : error.message,
      );
    this.#options.log.info(
      { sandbox: id, port, error: getErrorMessage(error) },
      "request to a sandbox failed",
    );
    return new TrafficError(502, `The sandbox cannot be reached: ${getErrorMessage(error)}`);
  }
}
