/** `cocoon vm start|stop|rm|restore|pause|resume|reset`. */
import { batch } from "../batch.ts";
import { announceRemoval } from "../removals.ts";
import { refreshed, report } from "../reports.ts";
import { outputFlag, type Verb } from "../verbs.ts";
import { wholeNumber } from "../vm-flags.ts";

interface BatchFlags {
  readonly output?: string;
  readonly force?: boolean;
  readonly timeout?: string;
}

/** A verb of the runtime that needs no flags of its own. */
function plainVerb(name: "start" | "pause" | "resume" | "reset", description: string): Verb {
  return {
    usage: `${name} <vm...>`,
    description,
    flags: outputFlag,
    run: (session, names: string[], { output }: BatchFlags) =>
      batch(session, { names, output, verb: (runtime, id) => runtime[name](id, session) }),
  };
}

export const lifecycleVerbs: readonly Verb[] = [
  plainVerb("start", "start VMs"),
  {
    usage: "stop <vm...>",
    description: "stop VMs",
    flags: {
      ...outputFlag,
      "--force": "at once",
      "--timeout <seconds>": "how long a guest may take (default: that of the settings file)",
    },
    run: (session, names: string[], { output, force = false, timeout }: BatchFlags) => {
      const { stopTimeoutSeconds } = session.settings;
      const seconds = timeout === undefined ? stopTimeoutSeconds : wholeNumber(timeout, "timeout");
      const options = { force, timeoutMs: seconds * 1000, signal: session.signal };
      return batch(session, { names, output, verb: (runtime, id) => runtime.stop(id, options) });
    },
  },
  {
    usage: "rm <vm...>",
    description: "remove VMs",
    flags: { ...outputFlag, "--force": "also running ones" },
    run: (session, names: string[], { output, force = false }: BatchFlags) =>
      batch(session, {
        names,
        output,
        prefix: "rm: ",
        verb: async (runtime, id) => {
          await announceRemoval(session.settings.rootDir, id);
          await runtime.remove(id, { force, signal: session.signal });
        },
      }),
  },
  {
    usage: "restore <vm> <snapshot>",
    description: "put a VM back to one of its snapshots",
    flags: {
      ...outputFlag,
      "--cpu <n>": "accepted, not used",
      "--memory <size>": "accepted, not used",
      "--storage <size>": "accepted, not used",
      "--on-demand": "always so",
      "--restore-mode <mode>": "always mmap",
      "--force": "accepted, not used",
    },
    run: async (session, ...[ref, snapshot, { output }]: [string, string, BatchFlags]) => {
      const runtime = await session.runtime();
      const restored = await runtime.restore(ref, snapshot, session);
      report(session, await refreshed(runtime, restored, session), output);
    },
  },
  // Beyond the original command: what the runtime can do with a guest that runs.
  plainVerb("pause", "freeze VMs"),
  plainVerb("resume", "let frozen VMs go on"),
  plainVerb("reset", "press the reset button"),
];
