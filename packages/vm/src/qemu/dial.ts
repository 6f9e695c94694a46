/** Connections from the host to ports of a guest, by whatever way its network offers. */
import { connect } from "node:net";
import type { Duplex } from "node:stream";
import { Fault, toFault, type Abortable } from "@cocoon/core";
import type { VmRecord } from "../store/vm-record.ts";
import type { PortForward, VmAddress } from "../vm.ts";
import type { VmNetwork } from "../vm-network.ts";
import type { QemuContext } from "./context.ts";
import { inTurn } from "./forward-turns.ts";
import { operate } from "./operate.ts";

export function networkOf(context: QemuContext, record: VmRecord): VmNetwork | undefined {
  if (record.nics.length === 0) return undefined;
  const [first] = context.networks.keys();
  return context.networks.get(record.config.network ?? first ?? "");
}

export async function addressOf(
  context: QemuContext,
  record: VmRecord,
  options: Abortable,
): Promise<VmAddress | undefined> {
  return networkOf(context, record)?.address(record.id, options);
}

/** A port that is not forwarded yet is, from now on. */
export async function dialGuest(
  context: QemuContext,
  record: VmRecord,
  { port, ...options }: Abortable & { readonly port: number },
): Promise<Duplex> {
  const address = await addressOf(context, record, options);
  if (!address) throw new Fault("unavailable", `VM ${record.name} has no address yet`);
  if (address.routable) return open(address.ip, port, options);
  const known = address.forwards.find((each) => each.protocol === "tcp" && each.guestPort === port);
  const forward = await readyForward(context, record, { port, known, ...options });
  return inTurn(forward, () => open(forward.hostAddress, forward.hostPort, options), options);
}

/** Forwards that QEMU is being told of: they are reserved, and so known, before it listens. */
const adding = new Map<string, Promise<PortForward>>();

interface WantedForward extends Abortable {
  readonly port: number;
  readonly known: PortForward | undefined;
}

function readyForward(
  context: QemuContext,
  record: VmRecord,
  { port, known, signal }: WantedForward,
): Promise<PortForward> {
  const key = `${record.id}:${port}`;
  const pending = adding.get(key);
  if (pending) return pending;
  if (known) return Promise.resolve(known);
  const added = addForward(context, record, { port, signal }).finally(() => adding.delete(key));
  adding.set(key, added);
  return added;
}

/** Reserved first, so that a crash cannot give the same host port to another VM; then QEMU is told. */
async function addForward(
  context: QemuContext,
  record: VmRecord,
  { port, ...options }: Abortable & { readonly port: number },
): Promise<PortForward> {
  const network = networkOf(context, record);
  if (!network) throw new Fault("notSupported", `VM ${record.name} has no network`);
  return operate(context, { ref: record.id, action: "forward", signal: options.signal }, async (vm) => {
    const forward = await network.addForward(record.id, { protocol: "tcp", guestPort: port }, options);
    using qmp = await vm.connect(options);
    const rule = `tcp:${forward.hostAddress}:${forward.hostPort}-:${forward.guestPort}`;
    const text = await qmp.execute("human-monitor-command", {
      signal: options.signal,
      arguments: { "command-line": `hostfwd_add net0 ${rule}` },
    });
    // Failure is only a text. That the rule is already there is success: somebody else was faster.
    if (text.trim() !== "" && !/already|could not set up host forwarding rule/i.test(text))
      throw new Fault("internal", `QEMU did not forward port ${port}: ${text.trim()}`);
    return forward;
  });
}

// oxlint-disable-next-line max-params -- host and port
function open(host: string, port: number, { signal }: Abortable): Promise<Duplex> {
  return new Promise((resolve, reject) => {
    // Half open: a guest that has said all it has to say may still listen.
    const socket = connect({ host, port, noDelay: true, allowHalfOpen: true });
    const giveUp = () => {
      socket.destroy();
      reject(signal.reason instanceof Error ? signal.reason : new Error("aborted"));
    };
    signal.addEventListener("abort", giveUp, { once: true });
    socket.once("error", (error) => reject(toFault(error, `cannot connect to port ${port} of the guest`)));
    socket.once("connect", () => {
      signal.removeEventListener("abort", giveUp);
      socket.removeAllListeners("error");
      resolve(socket);
    });
  });
}
