/** `cocoon vm list|inspect|status|debug|reconcile-stale-create`. */
import { Fault } from "@cocoon/core";
import { writeVmJson } from "@cocoon/vm/wire";
import { prefixed } from "../reports.ts";
import { stateText } from "../tables.ts";
import { listFlag, outputFlag, type Verb } from "../verbs.ts";
import { formatVms, showStatus } from "./status-command.ts";

export const viewVerbs: readonly Verb[] = [
  {
    usage: "list",
    alias: "ls",
    description: "list VMs",
    flags: listFlag,
    run: async (session, { format }: { format: string }) => {
      const runtime = await session.runtime();
      const vms = await runtime.list(session);
      if (format === "json" && vms.length > 0) return session.printJson(vms.map(writeVmJson));
      session.print(await formatVms(session, runtime, vms));
    },
  },
  {
    usage: "inspect <vm>",
    description: "show one VM as JSON",
    run: async (session, ref: string) => {
      const runtime = await session.runtime();
      const found = await runtime
        .inspect(ref, session)
        .catch((error: unknown) => prefixed(error, "inspect: "));
      session.printJson({ ...writeVmJson(found), state: stateText(found) });
    },
  },
  {
    usage: "status [vm...]",
    description: "show VMs, or what happens to them",
    flags: {
      "-n, --interval <seconds>": ["accepted, not used: changes are reported at once", "5"],
      "--event": "a stream of changes",
      "-w, --watch": "go on showing",
      "--format <format>": ["table or json", "table"],
    },
    run: showStatus,
  },
  {
    usage: "debug [image]",
    description: "not here: it prints commands for another hypervisor",
    configure: (declared) => declared.allowUnknownOption(),
    run: () => {
      throw new Fault(
        "notSupported",
        "vm debug prints commands for cloud-hypervisor; this is QEMU: see ps for its arguments",
      );
    },
  },
  {
    usage: "reconcile-stale-create <vm>",
    description: "remove a VM that was only half made",
    flags: outputFlag,
    run: async (session, ref: string) => {
      // Opening the store has already removed what no process is working on any more.
      const found = await (await session.runtime()).inspect(ref, session).catch(() => undefined);
      const outcome =
        found === undefined ? "not-found" : found.state === "creating" ? "busy" : "not-creating";
      session.printJson({ id: found?.id ?? ref, outcome });
    },
  },
];
