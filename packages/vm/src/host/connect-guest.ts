/** TCP connections to programs in guests. */
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { Fault, toFault, type Abortable } from "@cocoon/core";
import type { VmAddress } from "../vm.ts";

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

interface Target {
  readonly name: string;
  readonly address: VmAddress | undefined;
  readonly port: number;
}

/** `unavailable` while the address is unknown. A port that is forwarded is reached at its forward. */
export async function dialAddress({ name, address, port }: Target, options: Abortable): Promise<Socket> {
  if (!address) throw new Fault("unavailable", `VM ${name} has no address yet`);
  const forward = address.forwards.find((each) => each.protocol === "tcp" && each.guestPort === port);
  const target = forward ? { host: forward.hostAddress, port: forward.hostPort } : { host: address.ip, port };
  return connectGuest(target, options);
}
