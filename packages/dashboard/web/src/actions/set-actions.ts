/** What can be done with a set. */
import type { NodeRow, SetRow } from "../../../src/shared/rows.ts";
import { kube, mergePatch } from "../api/client.ts";
import { setPath } from "../api/paths.ts";
import { cocoonGroup, type Right } from "../api/rights.ts";
import { texts } from "../texts.ts";
import { commandLine, type Action } from "./action.ts";
import { forkActions, restoreAction } from "./set-copies.ts";

export function listSetActions(set: SetRow, nodes: readonly NodeRow[]): Action[] {
  return [
    power(set),
    scale(set),
    ...migrate(set, nodes),
    ...forkActions(set),
    restoreAction(set),
    remove(set),
  ];
}

function changeRight({ namespace, name }: SetRow, verb = "patch"): Right {
  return { verb, group: cocoonGroup, resource: "cocoonsets", namespace, name };
}

function patchSpec({ namespace, name }: SetRow, spec: unknown): Promise<unknown> {
  return mergePatch(setPath(namespace, name), { spec });
}

function power(set: SetRow): Action {
  const { namespace, name, suspend } = set;
  const word = suspend ? "resume" : "suspend";
  return {
    title: texts.action[word],
    explain: [texts.explain[word]],
    right: changeRight(set),
    command: () => commandLine("cocoonctl", word, name, "-n", namespace),
    run: () => patchSpec(set, { suspend: suspend ? null : true }),
  };
}

function scale(set: SetRow): Action {
  const { namespace, name, replicas } = set;
  return {
    title: texts.action.scale,
    explain: [texts.explain.scale],
    right: changeRight(set),
    inputs: [{ kind: "number", label: texts.action.replicas, initial: String(replicas), max: 512 }],
    command: ([input = ""]) => commandLine("cocoonctl", "scale", name, input, "-n", namespace),
    run: ([input]) => patchSpec(set, { agent: { replicas: Number(input) } }),
  };
}

function migrate(set: SetRow, nodes: readonly NodeRow[]): Action[] {
  const { namespace, name, members } = set;
  const current = members.find(({ role }) => role === "main")?.node;
  const choices = nodes
    .filter((node) => node.ready && node.name !== current && node.pool !== "")
    .map((node) => node.name);
  const [first] = choices;
  if (first === undefined) return [];
  return [
    {
      title: texts.action.migrate,
      explain: [texts.explain.migrate],
      right: changeRight(set),
      inputs: [{ kind: "choice", label: texts.action.node, initial: first, choices }],
      command: ([input = ""]) => commandLine("cocoonctl", "migrate", name, input, "-n", namespace),
      run: ([input]) => patchSpec(set, { nodeName: input }),
    },
  ];
}

const kept: Readonly<Record<string, string>> = {
  always: texts.explain.keepAll,
  "main-only": texts.explain.keepMain,
  never: texts.explain.keepNone,
};

function remove(set: SetRow): Action {
  const { namespace, name, uid, snapshotPolicy, deletionPolicy } = set;
  const what =
    deletionPolicy === "Purge" ? texts.explain.purge : (kept[snapshotPolicy] ?? texts.explain.keepAll);
  return {
    title: texts.action.delete,
    explain: [what],
    right: changeRight(set, "delete"),
    confirm: name,
    danger: true,
    command: () => commandLine("kubectl", "delete", "cocoonset", name, "-n", namespace),
    run: () => kube(setPath(namespace, name), { method: "DELETE", body: { preconditions: { uid } } }),
  };
}
