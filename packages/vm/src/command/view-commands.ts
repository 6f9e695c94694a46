/** `cocoon vm list|inspect|status|reconcile-stale-create`. */
import { Fault } from "@cocoon/core";
import type { Command } from "commander";
import { jsonOfVm } from "../wire/vm-json.ts";
import { prefixed, type Open } from "./reports.ts";
import { showStatus, type StatusFlags } from "./status-command.ts";
import { stateText, table, vmHeader, vmRow } from "./tables.ts";

export function addViewCommands(vm: Command, open: Open): void {
  vm.command("list")
    .alias("ls")
    .option("-o, --format <format>", "table or json", "table")
    .description("list VMs")
    .action(async (flags: { format: string }, command: Command) => {
      await using session = open(command);
      const runtime = await session.runtime();
      const vms = await runtime.list(session);
      if (vms.length === 0) return session.print("No VMs found.\n");
      if (flags.format === "json") return session.printJson(vms.map(jsonOfVm));
      const rows = await Promise.all(
        vms.map(async (each) =>
          vmRow(each, (await runtime.address(each.id, session).catch(() => undefined))?.ip ?? ""),
        ),
      );
      session.print(table(vmHeader, rows));
    });
  vm.command("inspect")
    .argument("<vm>")
    .description("show one VM as JSON")
    .action(async (ref: string, _flags: unknown, command: Command) => {
      await using session = open(command);
      const found = await (
        await session.runtime()
      )
        .inspect(ref, session)
        .catch((error: unknown) => prefixed(error, "inspect: "));
      session.printJson({ ...jsonOfVm(found), state: stateText(found) });
    });
  vm.command("status")
    .argument("[vm...]")
    .option("-n, --interval <seconds>", "accepted, not used: changes are told at once", "5")
    .option("--event", "a stream of changes")
    .option("-w, --watch", "go on showing")
    .option("--format <format>", "table or json", "table")
    .description("show VMs, or what happens to them")
    .action(async (names: string[], flags: StatusFlags, command: Command) => {
      await using session = open(command);
      await showStatus(session, names, flags);
    });
  addDebugRefusal(vm);
  vm.command("reconcile-stale-create")
    .argument("<vm>")
    .option("-o, --output <format>")
    .description("remove a VM that was only half made")
    .action(async (ref: string, _flags: unknown, command: Command) => {
      await using session = open(command);
      // Opening the store has already removed what no process is working on any more.
      const found = await (await session.runtime()).inspect(ref, session).catch(() => undefined);
      const outcome =
        found === undefined ? "not-found" : found.state === "creating" ? "busy" : "not-creating";
      session.printJson({ id: found?.id ?? ref, outcome });
    });
}

function addDebugRefusal(vm: Command): void {
  vm.command("debug")
    .argument("[image]")
    .allowUnknownOption()
    .description("not here: it prints commands for another hypervisor")
    .action(() => {
      throw new Fault(
        "notSupported",
        "vm debug prints commands for cloud-hypervisor; this is QEMU: see ps for its arguments",
      );
    });
}
