import assert from "node:assert/strict";
import { test } from "node:test";
import { readCocoonSet, readCocoonSetSpec, readDeletionPolicy, type CocoonSet } from "./cocoonset.ts";
import {
  addressCondition,
  setConditions,
  setPhases,
  subAgentSelector,
  type SetCounts,
} from "./cocoonset-status.ts";
import { withConditions } from "./conditions.ts";
import { agentCases } from "./testing/agent-cases.ts";
import { golden } from "./testing/golden.ts";
import { setCases } from "./testing/set-cases.ts";
import { toolboxCases } from "./testing/toolbox-cases.ts";

test("sets on the wire are read without loss", () => {
  for (const sample of golden("cocoonsets") as CocoonSet[])
    assert.deepEqual(JSON.parse(JSON.stringify(readCocoonSet(sample))), sample);
});

test("everything that the API server stores can be read", () => {
  for (const { name, spec, refused } of [...agentCases, ...toolboxCases, ...setCases])
    if (refused === undefined) assert.doesNotThrow(() => readCocoonSetSpec(spec), name);
});

test("an object from before a default, or with blanks, reads as if the default had been set", () => {
  const blank = {
    metadata: { name: "old" },
    spec: {
      snapshotPolicy: "",
      hibernatePolicy: null,
      nodePool: "",
      nodeName: "",
      agent: { image: "x", mode: "", os: null, backend: "", connType: "" },
      toolboxes: [{ name: "t", image: "y", mode: "", os: "" }],
    },
    status: null,
  };
  const { spec, status } = readCocoonSet(blank);
  assert.deepEqual(spec, {
    snapshotPolicy: "always",
    hibernatePolicy: "retain",
    nodePool: "default",
    agent: { image: "x", replicas: 0, mode: "clone", os: "linux", backend: "cloud-hypervisor" },
    toolboxes: [{ name: "t", image: "y", mode: "run", os: "linux", backend: "cloud-hypervisor" }],
  });
  assert.equal(status, undefined);
});

test("what is wrong is reported with its field, all at once", () => {
  const broken = {
    metadata: {},
    spec: { snapshotPolicy: "often", agent: { mode: "static" }, toolboxes: [{ name: "A" }, 7] },
  };
  assert.throws(
    () => readCocoonSet(broken),
    (error: Error & { causes?: { field: string }[] }) => {
      assert.match(error.message, /^CocoonSet is not valid: /);
      assert.deepEqual(error.causes?.map((cause) => cause.field).sort(), [
        "spec.agent.image",
        "spec.agent.mode",
        "spec.snapshotPolicy",
        "spec.toolboxes[0].name",
        "spec.toolboxes[1]",
      ]);
      return true;
    },
  );
  for (const object of [undefined, null, 7, {}, { metadata: {} }, { spec: {} }])
    assert.throws(() => readCocoonSet(object), { code: "invalid" });
});

test("a deletion learns what it must know even from a broken object", () => {
  const keepAll = { snapshotPolicy: "always", purge: false };
  for (const object of [undefined, {}, { spec: null }, { spec: { snapshotPolicy: "often", agent: 7 } }])
    assert.deepEqual(readDeletionPolicy(object), keepAll);
  const broken = { spec: { snapshotPolicy: "main-only", deletionPolicy: "Purge", nodePool: "a b" } };
  assert.deepEqual(readDeletionPolicy(broken), { snapshotPolicy: "main-only", purge: true });
});

/** Ready and desired agents, then toolboxes. */
const counts = (
  agents: readonly [number, number],
  toolboxes: readonly [number, number] = [0, 0],
): SetCounts => ({
  readyAgents: agents[0],
  desiredAgents: agents[1],
  readyToolboxes: toolboxes[0],
  desiredToolboxes: toolboxes[1],
});

test("conditions of a set are as ever", () => {
  const [sample] = golden("cocoonsets") as CocoonSet[];
  const reports = setConditions("Running", counts([3, 3], [2, 2]), 3);
  const now = new Date("2026-08-12T08:00:00.5Z");
  assert.deepEqual(withConditions(undefined, reports, { now }), sample?.status?.conditions);
});

test("Ready and Progressing follow from counts and phase", () => {
  const ready = (each: SetCounts) => setConditions("Running", each, 1)[0];
  assert.equal(ready(counts([0, 0]))?.status, "False");
  assert.equal(ready(counts([1, 1]))?.status, "True");
  assert.equal(ready(counts([1, 2]))?.status, "False");
  assert.equal(ready(counts([1, 1], [0, 1]))?.reason, "AgentsNotReady");
  assert.equal(ready(counts([1, 2], [0, 1]))?.message, "1/2 agents ready, 0/1 toolboxes ready");
  const progressing = setPhases.filter(
    (phase) => setConditions(phase, counts([0, 1]), 1)[1]?.status === "True",
  );
  assert.deepEqual(progressing, ["Pending", "Scaling", "Suspending", "Waking", "Migrating"]);
});

test("a toolbox that waits for its address is named", () => {
  const { status, reason, message } = addressCondition(["win", "old"], 3);
  assert.deepEqual([status, reason], ["False", "WaitingForAddress"]);
  assert.match(message, /waiting for the address of their machine: win, old$/);
  assert.equal(addressCondition([], 3).status, "True");
});

test("the scale subresource selects the sub-agents", () => {
  assert.equal(
    subAgentSelector("atlas"),
    "cocoonset.cocoonstack.io/name=atlas,cocoonset.cocoonstack.io/role=sub-agent",
  );
});
