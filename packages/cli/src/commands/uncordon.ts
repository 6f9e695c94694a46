/** uncordon: lets a drained node take pods again. */
import { clusterOptions, type CommandSpec } from "../command-spec.ts";
import { uncordon } from "./drain.ts";

export const command: CommandSpec = {
  usage: "uncordon <node>",
  description: "let a drained node take pods again",
  options: clusterOptions,
  examples: ["cocoonctl uncordon cocoon-1"],
  run: uncordon,
};
