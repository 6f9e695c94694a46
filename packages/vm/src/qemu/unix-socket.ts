/**
 * Connecting to a Unix socket in a directory of any length: the kernel takes at most 107 bytes of path, so the
 * directory is named by an open descriptor.
 */
import { open } from "node:fs/promises";
import { connect, type Socket } from "node:net";
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
