/** __complete: what shells call for completions. */
import { clusterOptions, type CommandSpec } from "../command-spec.ts";
import { complete } from "../completion/complete.ts";
import { commandName } from "../invocation.ts";
import { buildProgram } from "../program.ts";

export const command: CommandSpec = {
  usage: "__complete [words...]",
  hidden: true,
  options: clusterOptions,
  configure: (declared) => declared.allowUnknownOption().helpOption(false),
  run: async () => {
    const typed = process.argv.slice(process.argv.indexOf("__complete") + 1);
    await complete(typed[0] === "--" ? typed.slice(1) : typed, await buildProgram(commandName()));
  },
};
