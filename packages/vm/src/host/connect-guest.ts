/** TCP connections to programs in guests. */
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { toFault, type Abortable } from "@cocoon/core";

/** Half-open, so that either side may end first. The signal ends the attempt, not the connection. */
export async function connectGuest(
  { host, port }: { readonly host: string; readonly port: number },
  { signal }: Abortable,
): Promise<Socket> {
  const socket = connect({ host, port, noDelay: true, allowHalfOpen: true });
  try {
    await once(socket, "connect", { signal });
    return socket;
  } catch (error) {
    socket.destroy();
    signal.throwIfAborted();
    throw toFault(error, `cannot connect to port ${port} of the guest`);
  }
}
