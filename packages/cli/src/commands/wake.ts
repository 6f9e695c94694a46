/** wake: wakes single machines. */
import { clusterOptions, waitOptions, type CommandSpec } from "../command-spec.ts";
import { wake } from "./hibernate.ts";

export const command: CommandSpec = {
  usage: "wake <machine...>",
  summary: "wake single machines",
  description:
    "Wakes single machines, whatever hibernated them. Machines of a suspended set wake with it: use resume.",
  options: { ...waitOptions("5m"), ...clusterOptions },
  examples: ["cocoonctl wake demo-1"],
  run: wake,
};
