/** `kubectl port-forward`, and what a client behind it sees. */
import assert from "node:assert/strict";
import { connect } from "node:net";
import { join } from "node:path";
import { eventually, killChild, runCommand, temporaryDirectory } from "@cocoon/testkit";
import { type Client, type RealGuest } from "./real-guest.ts";

/** Everything sent to that port of the guest comes back. */
export async function startEcho(guest: RealGuest, client: Client, port: number): Promise<void> {
  await using directory = await temporaryDirectory();
  const program = join(directory.path, "guest-echo");
  const source = join(import.meta.dirname, "guest-echo.c");
  const compiled = await runCommand("gcc", ["-static", "-O1", "-o", program, source]);
  assert.equal(compiled.code, 0, compiled.stderr);
  const copied = await guest.kubectl(client, ["cp", program, `${guest.pod}:/root/guest-echo`]);
  assert.equal(copied.code, 0, copied.stderr);
  await guest.run("/root/guest-echo", String(port));
}

export interface Forward extends AsyncDisposable {
  /** Local ports, in the order of the remote ones. */
  readonly ports: readonly number[];
}

export async function startForward(
  guest: RealGuest,
  client: Client,
  remotePorts: readonly number[],
): Promise<Forward> {
  const child = guest.start(client, ["port-forward", guest.pod, ...remotePorts.map((port) => `:${port}`)]);
  let text = "";
  child.stdout?.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
  child.stderr?.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
  const ports = await eventually(
    () => {
      const found = [...text.matchAll(/Forwarding from 127\.0\.0\.1:(\d+)/g)].map((match) =>
        Number(match[1]),
      );
      assert.equal(found.length, remotePorts.length, text);
      return found;
    },
    { timeoutMs: 60_000 },
  );
  return { ports, [Symbol.asyncDispose]: () => killChild(child) };
}

/** Sends everything, half-closes, and returns all that comes back. */
export async function talk(port: number, body: Uint8Array): Promise<Buffer> {
  const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
  const received: Buffer[] = [];
  socket.on("data", (chunk: Buffer) => void received.push(chunk));
  socket.on("error", () => undefined);
  socket.on("end", () => socket.destroy());
  socket.end(body);
  // Not `once`: it takes an error, which a refused target is, for its own.
  await new Promise((resolve) => socket.once("close", resolve));
  return Buffer.concat(received);
}
