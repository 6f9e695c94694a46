/** Whether a node takes machines. Draining it is more than a button: drain/. */
import type { NodeRow } from "../../../src/shared/rows.ts";
import { cordonNode } from "../drain/run.ts";
import { texts } from "../texts.ts";
import { commandLine, type Action } from "./action.ts";

export function cordonAction(node: NodeRow): Action {
  const word = node.unschedulable ? "uncordon" : "cordon";
  return {
    title: texts.action[word],
    explain: [texts.explain[word]],
    right: { verb: "patch", resource: "nodes", name: node.name },
    command: () =>
      word === "cordon"
        ? commandLine("kubectl", "cordon", node.name)
        : commandLine("cocoonctl", "uncordon", node.name),
    run: () => cordonNode(node.name, !node.unschedulable),
  };
}
