/** What can be done with a node. */
import type { MachineRow, NodeRow } from "../../../src/shared/rows.ts";
import { ApiError, kube, mergePatch } from "../api/client.ts";
import { nodePath, podPath } from "../api/paths.ts";
import { texts } from "../texts.ts";
import { commandLine, type Action } from "./action.ts";

export function listNodeActions(node: NodeRow, machines: readonly MachineRow[]): Action[] {
  const word = node.unschedulable ? "uncordon" : "cordon";
  const right = { verb: "patch", resource: "nodes", name: node.name };
  return [
    {
      title: texts.action[word],
      explain: [texts.explain[word]],
      right,
      command: () =>
        word === "cordon"
          ? commandLine("kubectl", "cordon", node.name)
          : commandLine("cocoonctl", "uncordon", node.name),
      run: () => cordon(node, !node.unschedulable),
    },
    {
      title: texts.action.drain,
      explain: [texts.explain.drain],
      right,
      confirm: node.name,
      danger: true,
      command: () => commandLine("cocoonctl", "drain", node.name, "--no-wait"),
      run: async () => {
        await cordon(node, true);
        for (const machine of machines) await evict(machine);
      },
    },
  ];
}

function cordon({ name }: NodeRow, on: boolean): Promise<unknown> {
  return mergePatch(nodePath(name), { spec: { unschedulable: on ? true : null } });
}

async function evict({ namespace, name, uid }: MachineRow): Promise<void> {
  const body = {
    apiVersion: "policy/v1",
    kind: "Eviction",
    metadata: { namespace, name },
    deleteOptions: { preconditions: { uid } },
  };
  try {
    await kube(podPath(namespace, name, "eviction"), { method: "POST", body });
  } catch (error) {
    // It went meanwhile, or another pod has its name.
    if (!(error instanceof ApiError) || (error.status !== 404 && error.status !== 409)) throw error;
  }
}
