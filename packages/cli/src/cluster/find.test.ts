import assert from "node:assert/strict";
import { test } from "node:test";
import { missingMachine } from "./find.ts";

const machine = (name: string) => ({ metadata: { name } });
const set = (name: string, phase: "Running" | "Suspended") => ({ metadata: { name }, status: { phase } });

test("a machine that is not there is answered with what may have been meant, or what may help", () => {
  const world = {
    namespace: "team",
    machines: [machine("demo-0"), machine("demo-1")],
    sets: [set("demo", "Running")],
  };
  const describe = (name: string, more: object = {}) => missingMachine(name, { ...world, ...more }).message;
  assert.equal(
    describe("dmeo-1"),
    'there is no machine "dmeo-1" in namespace team; did you mean demo-1 or demo-0?',
  );
  assert.equal(describe("zzz"), 'there is no machine "zzz" in namespace team');
  assert.match(
    describe("demo-9"),
    /^set demo has no pod demo-9 now; did you mean demo-0 or demo-1\?; `cocoonctl get demo` shows/,
  );
  const asleep = { machines: [], sets: [set("demo", "Suspended")] };
  assert.equal(
    describe("demo-0", asleep),
    "set demo has no pod demo-0 now; it is suspended, wake it with: cocoonctl resume demo",
  );
});
