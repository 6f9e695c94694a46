/** Which port of the host leads to which port of a guest, in QEMU's user network. */
import { createServer, type ListenOptions } from "node:net";
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { Fault, systemCode } from "@cocoon/core";
import type { PortForward } from "@cocoon/vm";

export interface GuestPort {
  readonly protocol: "tcp" | "udp";
  readonly guestPort: number;
}

export const sshPort: GuestPort = { protocol: "tcp", guestPort: 22 };

/** Guest ports that may not be had at their own number get this much more, where that is free. */
const shiftedBy = 20_000;
const firstSpare = 30_000;

/**
 * Adds what is missing. A guest port keeps its number on the VM's own address, unless the host does not let us have it:
 * ports below 1024 need a privilege.
 */
export function planForwards(
  known: readonly PortForward[],
  ports: readonly GuestPort[],
  host: { readonly address: string; readonly firstFreePort: number },
): PortForward[] {
  const forwards = [...known];
  for (const { protocol, guestPort } of ports) {
    if (!Number.isInteger(guestPort) || guestPort < 1 || guestPort > 65_535) {
      throw new Fault("invalid", `${guestPort} is no port`);
    }
    const same = forwards.find((each) => each.protocol === protocol && each.guestPort === guestPort);
    if (same) continue;
    const isTaken = (port: number) =>
      forwards.some((each) => each.protocol === protocol && each.hostPort === port);
    const hostPort = choosePort(guestPort, host.firstFreePort, isTaken);
    forwards.push({ protocol, guestPort, hostAddress: host.address, hostPort });
  }
  return forwards;
}

// oxlint-disable-next-line max-params -- the spec, the limit, and what is taken
function choosePort(guestPort: number, firstFreePort: number, isTaken: (port: number) => boolean): number {
  for (const port of [guestPort, guestPort + shiftedBy]) {
    if (port >= firstFreePort && port <= 65_535 && !isTaken(port)) return port;
  }
  for (let port = firstSpare; port <= 65_535; port += 1) if (!isTaken(port)) return port;
  throw new Fault("unavailable", "no port is left to forward");
}

/** QEMU's words for them. */
export function forwardSettings(forwards: readonly PortForward[]): string[] {
  return forwards.map(
    ({ protocol, hostAddress, hostPort, guestPort }) =>
      `hostfwd=${protocol}:${hostAddress}:${hostPort}-:${guestPort}`,
  );
}

/** Whether no other process listens there. */
export async function isBindable({ protocol, hostAddress, hostPort }: PortForward): Promise<boolean> {
  try {
    await (protocol === "tcp"
      ? tryListen({ host: hostAddress, port: hostPort })
      : tryBind(hostAddress, hostPort));
    return true;
  } catch (error) {
    if (["EADDRINUSE", "EACCES", "EADDRNOTAVAIL"].includes(systemCode(error) ?? "")) return false;
    throw error;
  }
}

async function tryListen(options: ListenOptions): Promise<void> {
  const server = createServer();
  server.listen({ ...options, exclusive: true });
  await once(server, "listening");
  server.close();
  await once(server, "close");
}

async function tryBind(address: string, port: number): Promise<void> {
  const socket = createSocket("udp4");
  try {
    socket.bind(port, address);
    await once(socket, "listening");
  } finally {
    socket.close();
  }
}
