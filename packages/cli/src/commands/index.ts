/** The command tree. Each command's code is loaded when it is called: the tool itself starts quickly. */
import type { Command } from "commander";
import { addGuestCommands } from "./guest-commands.ts";
import { addNodeCommands } from "./node-commands.ts";
import { addPlatformCommands } from "./platform-commands.ts";
import { addSetCommands } from "./set-commands.ts";
import { addShellCommands } from "./shell-commands.ts";
import { addSnapshotCommands } from "./snapshot-commands.ts";

export function addCommands(program: Command): void {
  addSetCommands(program);
  addNodeCommands(program);
  addGuestCommands(program);
  addSnapshotCommands(program);
  addPlatformCommands(program);
  addShellCommands(program);
}
