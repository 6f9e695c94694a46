/** snapshot: the group of its commands. */
import type { CommandSpec } from "../../command-spec.ts";
import { command as ls } from "./ls.ts";
import { command as restore } from "./restore.ts";
import { command as rm } from "./rm.ts";

export const command: CommandSpec = {
  usage: "snapshot",
  summary: "list, remove and restore snapshots of machines",
  description:
    "Snapshots of machines in the registry: what they sleep in (hibernate), what they left when they were deleted (latest), what was given up while asleep (released-<time>).",
  commands: [ls, rm, restore],
};
