/** Requests to the API server, each with the credentials of the user it is made for. The dashboard's own are never sent. */
import type { IncomingMessage } from "node:http";
import https from "node:https";
import { Fault, getErrorMessage, nodeHttp, tryParseJson, withDeadline } from "@cocoon/core";
import type { ApiEndpoint } from "@cocoon/kube";
import { WebSocket } from "ws";

export interface UpstreamRequest {
  readonly method: string;
  /** Path with query. */
  readonly path: string;
  readonly token: string;
  readonly contentType?: string | undefined;
  readonly accept?: string | undefined;
  readonly body?: Buffer | undefined;
  readonly signal: AbortSignal;
}

const answerTimeoutMs = 30_000;
const maxJsonBytes = 8 * 1024 * 1024;
const maxMessageBytes = 4 * 1024 * 1024;

export class Upstream implements Disposable {
  readonly #endpoint: ApiEndpoint;
  readonly #agent: https.Agent | InstanceType<typeof nodeHttp.Agent>;
  readonly #isTls: boolean;

  constructor(endpoint: ApiEndpoint) {
    this.#endpoint = endpoint;
    this.#isTls = endpoint.server.protocol === "https:";
    const options = { keepAlive: true, keepAliveMsecs: 30_000, maxSockets: 256, timeout: 60_000 };
    this.#agent = this.#isTls ? new https.Agent(options) : new nodeHttp.Agent(options);
  }

  /** Resolves when the answer begins. `unavailable` when the server cannot be asked. */
  send(request: UpstreamRequest): Promise<IncomingMessage> {
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
    const { server } = this.#endpoint;
    const options = {
      method: request.method,
      host: server.hostname.replace(/^\[|\]$/g, ""),
      port: server.port || (this.#isTls ? 443 : 80),
      path: joinPath(server, request.path),
      agent: this.#agent,
      headers: readHeaders(request),
      signal: request.signal,
      ...(this.#isTls ? this.#endpoint.readTls() : {}),
    };
    const outgoing = this.#isTls ? https.request(options) : nodeHttp.request(options);
    const timer = setTimeout(
      () => outgoing.destroy(new Error(`no answer within ${answerTimeoutMs} ms`)),
      answerTimeoutMs,
    );
    outgoing.once("response", (answer) => {
      clearTimeout(timer);
      resolve(answer);
    });
    outgoing.once("error", (error) => {
      clearTimeout(timer);
      reject(
        new Fault("unavailable", `the API server does not answer: ${getErrorMessage(error)}`, {
          cause: error,
        }),
      );
    });
    outgoing.end(request.body);
    return promise;
  }

  /** A small answer as JSON, with its status. */
  async json(request: UpstreamRequest): Promise<{ readonly status: number; readonly body: unknown }> {
    const signal = withDeadline(request.signal, answerTimeoutMs);
    const answer = await this.send({ ...request, signal });
    const pieces: Buffer[] = [];
    let size = 0;
    for await (const piece of answer as AsyncIterable<Buffer>) {
      size += piece.length;
      if (size > maxJsonBytes)
        throw new Fault("tooLarge", `the API server answered with more than ${maxJsonBytes} bytes`);
      pieces.push(piece);
    }
    return { status: answer.statusCode ?? 0, body: tryParseJson(Buffer.concat(pieces).toString("utf8")) };
  }

  connect(
    path: string,
    { token, protocols }: { readonly token: string; readonly protocols: readonly string[] },
  ): WebSocket {
    const { server } = this.#endpoint;
    const address = `${this.#isTls ? "wss:" : "ws:"}//${server.host}${joinPath(server, path)}`;
    return new WebSocket(address, [...protocols], {
      headers: { authorization: `Bearer ${token}`, "user-agent": userAgent },
      perMessageDeflate: false,
      maxPayload: maxMessageBytes,
      handshakeTimeout: answerTimeoutMs,
      ...(this.#isTls ? this.#endpoint.readTls() : {}),
    });
  }

  [Symbol.dispose](): void {
    this.#agent.destroy();
  }
}

const userAgent = "cocoon-dashboard";

function joinPath(server: URL, path: string): string {
  return `${server.pathname.replace(/\/$/, "")}${path}`;
}

function readHeaders({ token, contentType, accept, body }: UpstreamRequest): Record<string, string> {
  return {
    authorization: `Bearer ${token}`,
    accept: accept ?? "application/json",
    "user-agent": userAgent,
    ...(contentType === undefined ? {} : { "content-type": contentType }),
    ...(body === undefined ? {} : { "content-length": String(body.length) }),
  };
}
