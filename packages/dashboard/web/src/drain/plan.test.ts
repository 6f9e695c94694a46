import assert from "node:assert/strict";
import { test } from "node:test";
import type { MachineRow, NodeRow, SetRow } from "../../../src/shared/rows.ts";
import { observeDrain, planDrain } from "./plan.ts";

const node = (name: string, more: Partial<NodeRow> = {}) =>
  ({ kind: "node", name, ready: true, unschedulable: false, pool: "default", ...more }) as NodeRow;
const machine = (name: string, more: Partial<MachineRow> = {}) =>
  ({
    kind: "machine",
    namespace: "a",
    name,
    uid: `uid-${name}`,
    set: "web",
    role: "sub-agent",
    state: "ready",
    node: "one",
    message: "",
    ...more,
  }) as MachineRow;
const set = (name: string, more: Partial<SetRow> = {}) =>
  ({ kind: "set", namespace: "a", name, node: "", ...more }) as SetRow;

const byName = (rows: readonly MachineRow[]) => new Map(rows.map((row) => [`a/${row.name}`, row]));

test("the plan says of each machine on the node whether it moves, waits or rests", () => {
  const machines = [
    machine("web-0", { role: "main" }),
    machine("web-1"),
    machine("pinned-0", { set: "pinned", role: "main" }),
    machine("bare", { set: "" }),
    machine("slept-0", { state: "asleep" }),
    machine("other-0", { node: "two" }),
  ];
  const sets = new Map([
    ["a/web", set("web")],
    ["a/pinned", set("pinned", { node: "one" })],
  ]);
  const outcomes = (nodes: readonly NodeRow[]) =>
    planDrain(node("one"), { nodes, machines, sets }).map((step) => [step.machine.name, step.outcome]);
  const usual = [
    ["web-0", "moves"],
    ["web-1", "moves"],
    ["pinned-0", "pinned"],
    ["bare", "ownerless"],
    ["slept-0", "rests"],
  ];
  assert.deepEqual(outcomes([node("one"), node("two")]), usual);
  const alone = [node("one"), node("two", { unschedulable: true }), node("far", { pool: "gpu" })];
  assert.deepEqual(
    outcomes(alone).filter(([, outcome]) => outcome === "noNode"),
    [
      ["web-0", "noNode"],
      ["web-1", "noNode"],
    ],
  );
});

test("progress follows each machine until it has left the node", () => {
  const rows = ["web-0", "web-1", "web-2"].map((name) => machine(name));
  const plan = rows.map((row) => ({ machine: row, outcome: "moves" as const }));
  const held = new Map([["uid-web-1", "budget"]]);
  const now = byName([machine("web-0", { node: "two", uid: "new", state: "waking" }), machine("web-1")]);
  const seen = observeDrain(plan, { node: "one", machines: now, held });
  assert.deepEqual(
    seen.map(({ hasLeft, text }) => [hasLeft, text]),
    [
      [true, "waking on two"],
      [false, "may not be evicted now: budget"],
      [true, "asleep in the registry"],
    ],
  );
});
