/**
 * Connecting to a Unix socket in a directory of any length: the kernel takes at most 107 bytes of path, so the
 * directory is named by an open descriptor.
 */
import { once } from "node:events";
import { open, rm } from "node:fs/promises";
import { connect, createServer, type Socket } from "node:net";
import { join } from "node:path";
import type { Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { Fault, systemCode, toFault, type Abortable } from "@cocoon/core";

/** `notFound` when there is no socket, `unavailable` when no process listens on it. */
export async function connectIn(directory: string, name: string, { signal }: Abortable): Promise<Socket> {
  signal.throwIfAborted();
  await using handle = await openDirectory(directory);
  const socket = connect({ path: `/proc/self/fd/${handle.fd}/${name}` });
  try {
    await once(socket, "connect", { signal });
    return socket;
  } catch (error) {
    socket.destroy();
    signal.throwIfAborted();
    const code = systemCode(error) === "ENOENT" ? "notFound" : "unavailable";
    throw new Fault(code, `cannot connect to ${name} in ${directory}`, { cause: error });
  }
}

async function openDirectory(directory: string): Promise<Awaited<ReturnType<typeof open>>> {
  try {
    return await open(directory, "r");
  } catch (error) {
    throw toFault(error, `cannot open ${directory}`);
  }
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
    pipeline(socket, into).then(received.resolve, received.reject);
  });
  await using handle = await openDirectory(directory);
  server.listen(`/proc/self/fd/${handle.fd}/${name}`);
  await once(server, "listening");
  return {
    received: received.promise,
    [Symbol.asyncDispose]: async () => {
      server.close();
      into.destroy();
      await rm(path, { force: true });
    },
  };
}
