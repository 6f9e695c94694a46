/** `vm status`: a table once, a table that is shown anew when something changes, or a stream of changes. */
import { sleep } from "@cocoon/core";
import type { Vm, VmRuntime } from "@cocoon/vm";
import { writeVmJson } from "@cocoon/vm/wire";
import { awaitRemoval } from "../removals.ts";
import type { CommandSession } from "../session.ts";
import { formatSize } from "../sizes.ts";
import { stateText, table, vmHeader, vmRow } from "../tables.ts";

export interface StatusFlags {
  readonly interval: string;
  readonly event?: boolean;
  readonly watch?: boolean;
  readonly format: string;
}

type EventName = "ADDED" | "MODIFIED" | "DELETED";

export async function showStatus(
  session: CommandSession,
  names: readonly string[],
  flags: StatusFlags,
): Promise<void> {
  const runtime = await session.runtime();
  const wanted = (vm: Vm) =>
    names.length === 0 ||
    names.some((name) => vm.id === name || vm.name === name || (name.length >= 3 && vm.id.startsWith(name)));
  if (flags.event) return streamEvents(session, { runtime, wanted, json: flags.format === "json" });
  const follows = flags.watch ?? (session.io.stdout.isTTY === true && flags.format !== "json");
  await showTable(session, { runtime, wanted, json: flags.format === "json" });
  if (!follows) return;
  for await (const event of runtime.watch(session)) {
    if (event.kind === "listed" || event.kind === "synced") continue;
    if (session.io.stdout.isTTY) session.print("\u001b[2J\u001b[H");
    await showTable(session, { runtime, wanted, json: flags.format === "json" });
  }
}

interface View {
  readonly runtime: VmRuntime;
  readonly wanted: (vm: Vm) => boolean;
  readonly json: boolean;
}

async function showTable(session: CommandSession, { runtime, wanted, json }: View): Promise<void> {
  const vms = (await runtime.list(session)).filter(wanted);
  if (json) return session.printJson(vms.map((vm) => ({ ...writeVmJson(vm), state: stateText(vm) })));
  session.print(await formatVms(session, runtime, vms));
}

export async function formatVms(
  session: CommandSession,
  runtime: VmRuntime,
  vms: readonly Vm[],
): Promise<string> {
  if (vms.length === 0) return "No VMs found.\n";
  const findIp = async ({ id }: Vm) => (await runtime.address(id, session).catch(() => undefined))?.ip ?? "";
  return table(vmHeader, await Promise.all(vms.map(async (vm) => vmRow(vm, await findIp(vm)))));
}

/** A change of anything else is not reported: what other clients compare, and how far the guest is. */
function fingerprint(vm: Vm): string {
  const { config } = vm;
  const addresses = vm.nics.map((nic) => nic.address?.ip ?? "");
  return JSON.stringify([
    vm.id,
    vm.name,
    stateText(vm),
    addresses,
    config.image,
    config.cpus,
    config.memoryBytes,
    vm.guest,
    vm.epoch,
  ]);
}

/** After a change, further ones of the same VM are waited for: clients of the command are used to so much. */
const debounceMs = 200;

/** All VMs at once as ADDED, then what differs from what was last reported. */
async function streamEvents(session: CommandSession, { runtime, wanted, json }: View): Promise<void> {
  const { rootDir } = session.settings;
  const known = new Map<string, { readonly vm: Vm; readonly print: string }>();
  /** The last state of VMs whose change is not reported yet; undefined: removed. */
  const pending = new Map<string, { vm: Vm | undefined }>();
  if (!json) session.print(`${eventHeader.join("  ")}\n`);
  const emit = (event: EventName, vm: Vm) => session.print(json ? eventLine(event, vm) : eventRow(event, vm));
  const report = (id: string, vm: Vm | undefined) => {
    const before = known.get(id);
    if (!vm) {
      known.delete(id);
      if (before) emit("DELETED", before.vm);
      return;
    }
    const print = fingerprint(vm);
    known.set(id, { vm, print });
    if (!before) emit("ADDED", vm);
    else if (before.print !== print) emit("MODIFIED", vm);
  };
  const settle = async (id: string, change: { vm: Vm | undefined }): Promise<void> => {
    let settled = false;
    while (!settled) {
      const { vm } = change;
      if (!vm) await awaitRemoval(rootDir, id, session);
      settled = !(await sleep(debounceMs, session)) || change.vm === vm;
    }
    pending.delete(id);
    if (!session.signal.aborted) report(id, change.vm);
  };
  for await (const event of runtime.watch(session)) {
    if (event.kind === "synced" || !wanted(event.vm)) continue;
    const { id } = event.vm;
    const vm = event.kind === "removed" ? undefined : event.vm;
    const change = pending.get(id);
    if (change) change.vm = vm;
    else if (event.kind === "listed" && !known.has(id)) report(id, vm);
    else {
      const started = { vm };
      pending.set(id, started);
      void settle(id, started);
    }
  }
}

function eventLine(event: EventName, vm: Vm): string {
  return `${JSON.stringify({ event, vm: { ...writeVmJson(vm), state: stateText(vm) } })}\n`;
}

const eventHeader = ["EVENT", "ID", "NAME", "STATE", "CPU", "MEMORY", "IP", "IMAGE"];

function eventRow(event: EventName, vm: Vm): string {
  const ip = vm.nics.flatMap((nic) => nic.address?.ip ?? []).join(",") || "-";
  const cells = [
    event,
    vm.id,
    vm.name,
    stateText(vm),
    String(vm.config.cpus),
    formatSize(vm.config.memoryBytes),
    ip,
    vm.config.image ?? "-",
  ];
  return `${cells.join("  ")}\n`;
}
