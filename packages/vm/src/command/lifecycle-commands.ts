/** `cocoon vm start|stop|rm|restore`. */
import type { Command } from "commander";
import { batch } from "./batch.ts";
import { refreshed, report, type Open } from "./reports.ts";
import { wholeNumber } from "./vm-flags.ts";

export function addLifecycleCommands(vm: Command, open: Open): void {
  const refs = (name: string, description: string) =>
    vm.command(name).argument("<vm...>").option("-o, --output <format>").description(description);
  refs("start", "start VMs").action(async (names: string[], flags: { output?: string }, command: Command) => {
    await batch(open(command), {
      names,
      output: flags.output,
      verb: (runtime, id, session) => runtime.start(id, session),
    });
  });
  refs("stop", "stop VMs")
    .option("--force", "at once")
    .option("--timeout <seconds>", "how long a guest may take")
    .action(
      async (
        names: string[],
        flags: { output?: string; force?: boolean; timeout?: string },
        command: Command,
      ) => {
        const session = open(command);
        const seconds =
          flags.timeout === undefined
            ? session.settings.stopTimeoutSeconds
            : wholeNumber(flags.timeout, "timeout");
        const options = { force: flags.force ?? false, timeoutMs: seconds * 1000, signal: session.signal };
        await batch(session, {
          names,
          output: flags.output,
          verb: (runtime, id) => runtime.stop(id, options),
        });
      },
    );
  refs("rm", "remove VMs")
    .option("--force", "also running ones")
    .action(async (names: string[], flags: { output?: string; force?: boolean }, command: Command) => {
      const session = open(command);
      const options = { force: flags.force ?? false, signal: session.signal };
      await batch(session, {
        names,
        output: flags.output,
        prefix: "rm: ",
        verb: (runtime, id) => runtime.remove(id, options),
      });
    });
}

/** Beyond the original command: what the runtime can do with a guest that runs. */
export function addGuestStateCommands(vm: Command, open: Open): void {
  const add = (name: "pause" | "resume" | "reset", description: string) =>
    vm
      .command(name)
      .argument("<vm...>")
      .option("-o, --output <format>")
      .description(description)
      .action(async (names: string[], flags: { output?: string }, command: Command) => {
        await batch(open(command), {
          names,
          output: flags.output,
          verb: (runtime, id, session) => runtime[name](id, session),
        });
      });
  add("pause", "freeze VMs");
  add("resume", "let frozen VMs go on");
  add("reset", "press the reset button");
}

export function addRestoreCommand(vm: Command, open: Open): void {
  vm.command("restore")
    .arguments("<vm> <snapshot>")
    .option("-o, --output <format>")
    .option("--cpu <n>", "accepted, not used")
    .option("--memory <size>", "accepted, not used")
    .option("--storage <size>", "accepted, not used")
    .option("--on-demand", "always so")
    .option("--restore-mode <mode>", "always mmap")
    .option("--force", "accepted, not used")
    .description("put a VM back to one of its snapshots")
    .action(async (...[ref, snapshot, flags, command]: [string, string, { output?: string }, Command]) => {
      await using session = open(command);
      const runtime = await session.runtime();
      report(
        session,
        await refreshed(runtime, await runtime.restore(ref, snapshot, session), session),
        flags.output,
      );
    });
}
