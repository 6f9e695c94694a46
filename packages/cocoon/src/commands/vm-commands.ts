/** `cocoon vm …`: making and handling VMs, and talking to their guests. */
import { saveFlags } from "./snapshot-commands.ts";
import { collect, type Verb } from "../verbs.ts";
import { attachConsole } from "./console-command.ts";
import { execInVm, printLogs, type ExecFlags } from "./guest-commands.ts";
import { lifecycleVerbs } from "./lifecycle-commands.ts";
import { makeVerbs } from "./make-commands.ts";
import { viewVerbs } from "./view-commands.ts";

const guestVerbs: readonly Verb[] = [
  {
    usage: "console <vm>",
    description: "the serial console",
    flags: { "--escape-char <char>": ["then . to leave", "^]"] },
    run: (session, ref: string, flags: { escapeChar: string }) =>
      attachConsole(session, ref, flags.escapeChar),
  },
  {
    usage: "exec <vm> <command...>",
    description: "run a program in the guest",
    flags: { "-i, --interactive": "pass standard input", "-t, --tty": "on a terminal" },
    configure: (declared) => declared.option("-e, --env <pair>", "KEY=value; repeatable", collect, []),
    run: (session, ...[ref, argv, flags]: [string, string[], ExecFlags]) =>
      execInVm(session, { ref, argv, flags }),
  },
  {
    usage: "logs <vm>",
    description: "the hypervisor's log",
    flags: {
      "--tail <lines>": "last lines only (default: all)",
      "-f, --follow": "go on showing",
      "--console": "what the guest's console showed, instead of the hypervisor's log",
    },
    run: printLogs,
  },
  {
    usage: "hibernate <vm>",
    description: "save a VM and stop it",
    flags: saveFlags,
    run: async (session, ref: string, flags: { name?: string; description?: string }) => {
      const runtime = await session.runtime();
      const { signal } = session;
      const { snapshot } = await runtime.snapshots.save(ref, { ...flags, resume: false, signal });
      await runtime.stop(ref, { force: true, signal });
      session.say(`snapshot saved: ${snapshot.id}`);
    },
  },
];

export const vmVerbs: readonly Verb[] = [...makeVerbs, ...lifecycleVerbs, ...viewVerbs, ...guestVerbs];
