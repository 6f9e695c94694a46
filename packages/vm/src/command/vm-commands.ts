/** `cocoon vm …`: making and handling VMs, and talking to their guests. */
import type { Command } from "commander";
import { attachConsole } from "./console-command.ts";
import { execInVm, printLogs, type ExecFlags, type LogFlags } from "./guest-commands.ts";
import { addGuestStateCommands, addLifecycleCommands, addRestoreCommand } from "./lifecycle-commands.ts";
import { addMakeCommands } from "./make-commands.ts";
import type { Open } from "./reports.ts";
import { addViewCommands } from "./view-commands.ts";

export function addVmCommands(parent: Command, open: Open): void {
  const vm = parent.command("vm").description("virtual machines");
  addMakeCommands(vm, open);
  addLifecycleCommands(vm, open);
  addRestoreCommand(vm, open);
  addGuestStateCommands(vm, open);
  addViewCommands(vm, open);
  addGuestCommands(vm, open);
}

function addGuestCommands(vm: Command, open: Open): void {
  vm.command("console")
    .argument("<vm>")
    .option("--escape-char <char>", "then . to leave", "^]")
    .description("the serial console")
    .action(async (ref: string, flags: { escapeChar: string }, command: Command) => {
      await using session = open(command);
      await attachConsole(session, ref, flags.escapeChar);
    });
  vm.command("exec")
    .argument("<vm>")
    .argument("<command...>")
    .option("-i, --interactive", "pass standard input")
    .option("-t, --tty", "on a terminal")
    .option(
      "-e, --env <pair>",
      "KEY=value; repeatable",
      (value: string, before: string[]) => [...before, value],
      [],
    )
    .description("run a program in the guest")
    .action(async (...[ref, argv, flags, command]: [string, string[], ExecFlags, Command]) => {
      await using session = open(command);
      await execInVm(session, { ref, argv, flags });
    });
  vm.command("logs")
    .argument("<vm>")
    .option("--tail <lines>")
    .option("-f, --follow")
    .option("--console", "what the guest's console showed, instead of the hypervisor's log")
    .description("the hypervisor's log")
    .action(async (ref: string, flags: LogFlags, command: Command) => {
      await using session = open(command);
      await printLogs(session, ref, flags);
    });
  vm.command("hibernate")
    .argument("<vm>")
    .option("--name <name>")
    .option("--description <text>")
    .description("save a VM and stop it")
    .action(async (ref: string, flags: { name?: string; description?: string }, command: Command) => {
      await using session = open(command);
      const runtime = await session.runtime();
      const { snapshot } = await runtime.snapshots.save(ref, {
        ...flags,
        resume: false,
        signal: session.signal,
      });
      await runtime.stop(ref, { force: true, signal: session.signal });
      session.say(`snapshot saved: ${snapshot.id}`);
    });
}
