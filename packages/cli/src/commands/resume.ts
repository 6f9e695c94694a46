/** resume: wakes the machines of suspended sets. */
import { clusterOptions, waitOptions, type CommandSpec } from "../command-spec.ts";
import { resume } from "./suspend.ts";

export const command: CommandSpec = {
  usage: "resume <set...>",
  summary: "wake every machine of a suspended set",
  description:
    "Wakes every machine of the sets, exactly where it was. Machines that were hibernated one by one stay hibernated.",
  options: { ...waitOptions("10m"), ...clusterOptions },
  examples: ["cocoonctl resume demo"],
  run: resume,
};
