import assert from "node:assert/strict";
import { test } from "node:test";
import { annotation, label } from "@cocoon/contract";
import fc from "fast-check";
import { readMachine } from "./machine.ts";

const base = {
  [annotation.vmName]: "vk-lab-atlas-0",
  [annotation.managed]: "true",
  [annotation.generation]: "3",
};
const state = (name: string, generation = "3") => ({
  [annotation.lifecycleState]: name,
  [annotation.lifecycleObservedGeneration]: generation,
});
const pod = (annotations: Record<string, string>, more: object = {}) => ({
  metadata: { namespace: "lab", name: "atlas-0", uid: "u1", annotations: { ...base, ...annotations } },
  ...more,
});
const running = { containerStatuses: [{ state: { running: {} } }] };

test("a machine is awake only when it is ready at the current generation", () => {
  const awake = { [annotation.vmId]: "VM1", ...state("ready") };
  assert.equal(readMachine(pod(awake, { status: running })).awake, true);
  assert.equal(readMachine(pod({ ...awake, ...state("ready", "2") }, { status: running })).awake, false);
  const asked = { ...awake, [annotation.hibernate]: "true" };
  assert.equal(readMachine(pod(asked, { status: running })).awake, false);
  assert.equal(readMachine(pod(awake)).awake, false);
});

test("a machine is asleep only when that is asked for and reached", () => {
  const asleep = { [annotation.hibernate]: "true", ...state("hibernated") };
  assert.equal(readMachine(pod(asleep)).asleep, true);
  assert.equal(readMachine(pod({ ...asleep, ...state("hibernated", "2") })).asleep, false);
  assert.equal(readMachine(pod(state("hibernated"))).asleep, false);
});

test("a disruption, a deletion and the digests are read from where each stands", () => {
  const conditions = [{ type: "DisruptionTarget", status: "True" }];
  const machine = readMachine({
    metadata: {
      ...pod({ [annotation.snapshotDigest]: "sha256:a", [annotation.restoredDigest]: "sha256:b" }).metadata,
      deletionTimestamp: "2026-01-02T03:04:05Z",
    },
    status: { conditions },
  });
  assert.deepEqual([machine.disrupted, machine.terminating], [true, true]);
  assert.deepEqual([machine.recordedDigest, machine.restoredDigest], ["sha256:a", "sha256:b"]);
});

test("roles need a label and a slot that fit each other", () => {
  const read = (labels: Record<string, string>) => {
    const { role, member } = readMachine({ metadata: { labels } });
    return [role, member];
  };
  assert.deepEqual(read({ [label.role]: "main", [label.slot]: "0" }), ["main", 0]);
  assert.deepEqual(read({ [label.role]: "main", [label.slot]: "1" }), [undefined, "1"]);
  assert.deepEqual(read({ [label.role]: "sub-agent", [label.slot]: "7" }), ["sub-agent", 7]);
  assert.deepEqual(read({ [label.role]: "toolbox", [label.slot]: "browser" }), ["toolbox", "browser"]);
  assert.deepEqual(read({}), [undefined, ""]);
});

test("any annotations can be read", () => {
  const keys = fc.constantFrom(...Object.values(annotation));
  fc.assert(
    fc.property(fc.dictionary(keys, fc.string()), (annotations) => {
      const machine = readMachine({ metadata: { annotations } });
      assert.ok(!(machine.asleep && machine.awake));
    }),
  );
});
