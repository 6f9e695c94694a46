/**
 * Connecting to a Unix socket in a directory of any length: the kernel takes at most 107 bytes of path, so the
 * directory is named by an open descriptor.
 */
import { open, rm } from "node:fs/promises";
import { connect, createServer, type Socket } from "node:net";
import { join } from "node:path";
import type { Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { Fault, systemCode, toFault, type Abortable } from "@cocoon/core";

/** `notFound` when there is no socket, `unavailable` when nobody listens on it. */
export async function connectIn(directory: string, name: string, { signal }: Abortable): Promise<Socket> {
  signal.throwIfAborted();
  const handle = await openDirectory(directory);
  try {
    return await connectTo(`/proc/self/fd/${handle.fd}/${name}`, signal);
  } catch (error) {
    signal.throwIfAborted();
    throw new Fault(faultCode(error), `cannot connect to ${name} in ${directory}`, { cause: error });
  } finally {
    await handle.close();
  }
}

async function openDirectory(directory: string): Promise<Awaited<ReturnType<typeof open>>> {
  try {
    return await open(directory, "r");
  } catch (error) {
    throw toFault(error, `cannot open ${directory}`);
  }
}

function faultCode(error: unknown): "notFound" | "unavailable" {
  return systemCode(error) === "ENOENT" ? "notFound" : "unavailable";
}

function connectTo(path: string, signal: AbortSignal): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ path });
    const giveUp = () => {
      socket.destroy();
      reject(signal.reason instanceof Error ? signal.reason : new Error("aborted"));
    };
    signal.addEventListener("abort", giveUp, { once: true });
    socket.once("error", reject);
    socket.once("connect", () => {
      signal.removeEventListener("abort", giveUp);
      socket.removeListener("error", reject);
      resolve(socket);
    });
  });
}

export interface Receiver extends AsyncDisposable {
  /** Resolves when the one client that was awaited has sent everything and it is written. */
  readonly received: Promise<void>;
}

/** Listens on a socket in a directory and writes what the first client sends into the given stream. */
export async function receiveOnce(directory: string, name: string, into: Writable): Promise<Receiver> {
  const path = join(directory, name);
  await rm(path, { force: true });
  const received = Promise.withResolvers<void>();
  received.promise.catch(() => undefined); // the caller may have given up
  const server = createServer((socket) => {
    server.close();
    pipeline(socket, into).then(received.resolve, (error: unknown) => received.reject(asError(error)));
  });
  const handle = await openDirectory(directory);
  try {
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen(`/proc/self/fd/${handle.fd}/${name}`, resolve);
    });
  } finally {
    await handle.close();
  }
  return {
    received: received.promise,
    [Symbol.asyncDispose]: async () => {
      server.close();
      into.destroy();
      await rm(path, { force: true });
    },
  };
}

function asError(value: unknown): Error {
  return value instanceof Error ? value : new Error(String(value));
}
