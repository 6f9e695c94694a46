/** Requests for sandboxes and machines: to the envd of a sandbox, or to any port. Private unless asked otherwise; may wake a machine. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { ServerHttp2Stream } from "node:http2";
import type { Duplex } from "node:stream";
import { getErrorMessage, type Abortable, type Logger } from "@cocoon/core";
import type { EnvdRoutes } from "../envd/routes.ts";
import { ApiError } from "../http/answer.ts";
import { describeTarget, sendTrafficError, TrafficError } from "./data-plane.ts";
import type { MachineAdmission } from "./machine-admission.ts";
import type { PortProxy } from "./proxy.ts";
import type { Route } from "./route.ts";
import type { SandboxAdmission } from "./sandbox-admission.ts";
import type { TrafficTarget } from "./target.ts";
import { tunnelWebSocket } from "./websocket-tunnel.ts";

export interface TrafficOptions {
  readonly sandboxes: SandboxAdmission;
  readonly machines: MachineAdmission;
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
    let route: Route | undefined;
    try {
      route = await this.#admit(request, target, left);
      if (route.envdOf) return await this.#options.envd.serve(request, response, route.envdOf);
      const stream = route.track();
      response.once("close", () => stream.abort());
      await this.#options.proxy.serve(request, response, {
        connect: route.connect,
        signal: stream.signal,
        onAnswer: () => route?.turn?.[Symbol.dispose](),
      });
    } catch (error) {
      if (left.signal.aborted) return;
      sendTrafficError(response, this.#explain(error, target), target);
    } finally {
      route?.turn?.[Symbol.dispose]();
    }
  }

  /** A WebSocket that came over HTTP/2. */
  async tunnel(request: IncomingMessage, stream: ServerHttp2Stream, target: TrafficTarget): Promise<void> {
    const left = new AbortController();
    stream.once("close", () => left.abort(new Error("the client left")));
    let route: Route | undefined;
    try {
      route = await this.#admit(request, target, left);
      if (route.envdOf) throw new TrafficError(404, "not found");
      const tracked = route.track();
      stream.once("close", () => tracked.abort());
      await tunnelWebSocket(request, stream, { connect: route.connect, signal: tracked.signal });
    } catch (error) {
      if (stream.destroyed || stream.headersSent) return;
      const { status, message } = this.#explain(error, target);
      stream.respond({ ":status": status, "content-type": "application/json" });
      stream.end(JSON.stringify({ ...describeTarget(target), message, code: status }));
    } finally {
      route?.turn?.[Symbol.dispose]();
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
    let route: Route | undefined;
    try {
      route = await this.#admit(request, target, left);
      if (route.envdOf) throw new TrafficError(404, "not found");
      const stream = route.track();
      socket.once("close", () => stream.abort());
      await this.#options.proxy.upgrade(request, ends, { connect: route.connect, signal: stream.signal });
    } catch (error) {
      const { status, message } = this.#explain(error, target);
      const text = JSON.stringify({ ...describeTarget(target), message, code: status });
      socket.end(
        `HTTP/1.1 ${status} Error\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(text)}\r\nConnection: close\r\n\r\n${text}`,
      );
    } finally {
      route?.turn?.[Symbol.dispose]();
    }
  }

  #admit(request: IncomingMessage, target: TrafficTarget, { signal }: Abortable): Promise<Route> {
    const { sandboxes, machines } = this.#options;
    return target.kind === "sandbox"
      ? sandboxes.admit(request, target, { signal })
      : machines.admit(request, target, { signal });
  }

  #explain(error: unknown, target: TrafficTarget): TrafficError {
    if (error instanceof TrafficError) return error;
    if (error instanceof ApiError)
      return new TrafficError(
        error.status === 404 ? 502 : error.status,
        error.status === 404 ? "The sandbox was not found" : error.message,
      );
    const { port } = target;
    this.#options.log.info(
      { ...describeTarget(target), port, error: getErrorMessage(error) },
      "request to a machine failed",
    );
    return new TrafficError(502, `The machine cannot be reached: ${getErrorMessage(error)}`);
  }
}
