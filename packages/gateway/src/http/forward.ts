/** A request that goes on over another connection, as it came but for its headers. */
import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { nodeHttp } from "@cocoon/core";

/** A body can be sent only once: such a request is not tried again. */
export function hasBody({ headers }: IncomingMessage): boolean {
  return headers["content-length"] !== undefined || headers["transfer-encoding"] !== undefined;
}

/** Undefined when the other end closed the connection without an answer. */
export function forwardRequest(
  request: IncomingMessage,
  stream: Duplex,
  headers: Readonly<Record<string, string | string[]>>,
): Promise<IncomingMessage | undefined> {
  const forwarded = nodeHttp.request({
    createConnection: () => stream,
    method: request.method ?? "GET",
    path: request.url ?? "/",
    headers,
    setHost: false,
  });
  request.pipe(forwarded);
  return new Promise((resolve) => {
    forwarded.once("response", resolve);
    forwarded.once("error", () => resolve(undefined));
    forwarded.once("close", () => resolve(undefined));
  });
}

export interface UpgradeEnds {
  readonly socket: Duplex;
  readonly head: Buffer;
}

export interface UpgradeTarget {
  readonly stream: Duplex;
  /** Each line ended. */
  readonly headers: string;
  /** When either end is closed; both are then. May be called again. */
  readonly onClose: () => void;
}

/** Bytes both ways from the first on: whatever protocol the two agree on. Returns what ends it. */
export function forwardUpgrade(
  request: IncomingMessage,
  { socket, head }: UpgradeEnds,
  { stream, headers, onClose }: UpgradeTarget,
): () => void {
  const close = () => {
    stream.destroy();
    socket.destroy();
    onClose();
  };
  for (const end of [stream, socket]) end.once("close", close).on("error", close);
  stream.write(`${request.method ?? "GET"} ${request.url ?? "/"} HTTP/1.1\r\n${headers}\r\n`);
  if (head.length > 0) stream.write(head);
  stream.pipe(socket);
  socket.pipe(stream);
  return close;
}
