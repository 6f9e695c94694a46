/** `vm status`: a table once, a table that is shown anew when something changes, or a stream of changes. */
import type { VmRuntime } from "../runtime.ts";
import type { Vm } from "../vm.ts";
import { jsonOfVm } from "../wire/vm-json.ts";
import type { CommandSession } from "./session.ts";
import { formatSize } from "./sizes.ts";
import { stateText, table, vmHeader, vmRow } from "./tables.ts";

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
  const goOn = flags.watch ?? (session.io.stdout.isTTY === true && flags.format !== "json");
  await showTable(session, { runtime, wanted, json: flags.format === "json" });
  if (!goOn) return;
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
  if (json) return session.printJson(vms.map((vm) => ({ ...jsonOfVm(vm), state: stateText(vm) })));
  if (vms.length === 0) return session.print("No VMs found.\n");
  const rows = await Promise.all(vms.map(async (vm) => vmRow(vm, await ipOf(runtime, vm, session))));
  session.print(table(vmHeader, rows));
}

async function ipOf(runtime: VmRuntime, vm: Vm, session: CommandSession): Promise<string> {
  return (await runtime.address(vm.id, session).catch(() => undefined))?.ip ?? "";
}

/** What a change must touch to be told: what other clients compare, and how far the guest is. */
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

async function streamEvents(session: CommandSession, { runtime, wanted, json }: View): Promise<void> {
  const known = new Map<string, { readonly vm: Vm; readonly print: string }>();
  if (!json) session.print(`${eventHeader.join("  ")}\n`);
  const tell = (event: EventName, vm: Vm) => session.print(json ? eventLine(event, vm) : eventRow(event, vm));
  for await (const event of runtime.watch(session)) {
    if (event.kind === "synced" || !wanted(event.vm)) continue;
    const { vm } = event;
    const before = known.get(vm.id);
    if (event.kind === "removed") {
      known.delete(vm.id);
      tell("DELETED", before?.vm ?? vm);
      continue;
    }
    const print = fingerprint(vm);
    known.set(vm.id, { vm, print });
    if (!before) tell("ADDED", vm);
    else if (before.print !== print) tell("MODIFIED", vm);
  }
}

function eventLine(event: EventName, vm: Vm): string {
  return `${JSON.stringify({ event, vm: { ...jsonOfVm(vm), state: stateText(vm) } })}\n`;
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
