/** Requests whose bodies stop, or never end: written to a connection by hand. */
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import type { World } from "./world.ts";

interface RequestHead {
  readonly method: string;
  readonly path: string;
  /** Of the whole body, whatever comes of it. */
  readonly length: number;
  readonly headers?: readonly string[];
}

interface RawRequest {
  readonly socket: Socket;
  /** Everything that the server said so far. */
  readonly heard: () => string;
}

/** Sends the head; the body is up to the caller. */
export async function beginRequest(world: World, head: RequestHead): Promise<RawRequest> {
  const socket = connect(world.registry.port, "127.0.0.1");
  let heard = "";
  socket.on("data", (chunk: Buffer) => (heard += chunk.toString("latin1")));
  socket.on("error", () => undefined); // that the other side hangs up is what such tests are about
  await once(socket, "connect");
  const lines = [
    `${head.method} ${head.path} HTTP/1.1`,
    "Host: x",
    `Authorization: Bearer ${world.client.token}`,
    `Content-Length: ${head.length}`,
    ...(head.headers ?? []),
  ];
  socket.write(`${lines.join("\r\n")}\r\n\r\n`);
  return { socket, heard: () => heard };
}

/** Until the system has taken all of it, or the connection closed. */
export async function sendBytes(socket: Socket, bytes: Uint8Array): Promise<void> {
  await Promise.race([
    new Promise<void>((resolve) => void socket.write(bytes, () => resolve())),
    new Promise<void>((resolve) => void socket.once("close", () => resolve())),
  ]);
}
