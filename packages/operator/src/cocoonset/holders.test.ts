import assert from "node:assert/strict";
import { test } from "node:test";
import { nodeAnnotation } from "@cocoon/contract";
import type { Node } from "@cocoon/kube";
import { findHolder, listHeld } from "./holders.ts";

const vmName = "vk-lab-atlas-0";

function makeNode(name: string, held: { readonly machines?: string; readonly frozen?: string }): Node {
  const { machines = "", frozen = "" } = held;
  return {
    metadata: {
      name,
      annotations: { [nodeAnnotation.machines]: machines, [nodeAnnotation.frozenMachines]: frozen },
    },
    status: { conditions: [{ type: "Ready", status: "True" }] },
  };
}

function find(...nodes: readonly Node[]) {
  const get = (name: string) => nodes.filter((node) => listHeld(node).includes(name));
  return findHolder({ nodesByMachine: { get } }, vmName);
}

test("a VM that a node keeps frozen holds its machine while no other VM of it is known", () => {
  const frozen = makeNode("b", { frozen: `vk-lab-other-0,${vmName}` });
  assert.deepEqual(find(makeNode("a", {}), frozen), { node: "b", usable: true });
  assert.deepEqual(find(frozen, makeNode("a", { machines: vmName })), { node: "a", usable: true });
  assert.equal(find(makeNode("a", {})), undefined);
});

test("the node of a VM that is not frozen is waited for although another one keeps a frozen VM", () => {
  const away = { ...makeNode("a", { machines: vmName }), spec: { unschedulable: true } };
  assert.deepEqual(find(makeNode("b", { frozen: vmName }), away), { node: "a", usable: false });
});
