/** Connections from the host to ports of a guest, by whatever way its network offers. */
import type { Duplex } from "node:stream";
import { Fault, type Abortable } from "@cocoon/core";
import type { VmRecord } from "../store/vm-record.ts";
import { connectGuest } from "@cocoon/vm/host";
import type { PortForward, VmAddress } from "@cocoon/vm";
import type { QemuContext } from "../context.ts";
import { runInTurn } from "./forward-turns.ts";
import { findVmNetwork } from "../machine/attach-network.ts";
import { operate } from "../machine/operate.ts";

export async function findAddress(
  context: QemuContext,
  record: VmRecord,
  options: Abortable,
): Promise<VmAddress | undefined> {
  return findVmNetwork(context, record)?.address(record.id, options);
}

/** A port that is not forwarded yet is, from now on. */
export async function dialGuest(
  context: QemuContext,
  record: VmRecord,
  { port, ...options }: Abortable & { readonly port: number },
): Promise<Duplex> {
  const address = await findAddress(context, record, options);
  if (!address) throw new Fault("unavailable", `VM ${record.name} has no address yet`);
  if (address.routable) return connectGuest({ host: address.ip, port }, options);
  const known = address.forwards.find((each) => each.protocol === "tcp" && each.guestPort === port);
  const forward = await readyForward(context, record, { port, known, ...options });
  return runInTurn(
    forward,
    () => connectGuest({ host: forward.hostAddress, port: forward.hostPort }, options),
    options,
  );
}

/** Forwards that are being added to QEMU: they are reserved, and so known, before it listens. */
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

/** Reserved first, so that a crash cannot give the same host port to another VM; then added to QEMU. */
async function addForward(
  context: QemuContext,
  record: VmRecord,
  { port, ...options }: Abortable & { readonly port: number },
): Promise<PortForward> {
  const network = findVmNetwork(context, record);
  if (!network) throw new Fault("notSupported", `VM ${record.name} has no network`);
  return operate(context, { ref: record.id, action: "forward", signal: options.signal }, async (vm) => {
    const forward = await network.addForward(record.id, { protocol: "tcp", guestPort: port }, options);
    using qmp = await vm.connect(options);
    const rule = `tcp:${forward.hostAddress}:${forward.hostPort}-:${forward.guestPort}`;
    const text = await qmp.execute("human-monitor-command", {
      signal: options.signal,
      arguments: { "command-line": `hostfwd_add net0 ${rule}` },
    });
    // Failure is only a text. That the rule is already there is success: another process was faster.
    if (text.trim() !== "" && !/already|could not set up host forwarding rule/i.test(text))
      throw new Fault("internal", `QEMU did not forward port ${port}: ${text.trim()}`);
    return forward;
  });
}
