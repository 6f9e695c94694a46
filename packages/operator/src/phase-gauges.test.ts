import assert from "node:assert/strict";
import { test } from "node:test";
import { createRegistry } from "@cocoon/core";
import type { CustomObject } from "./kinds.ts";
import { exportPhaseGauges } from "./phase-gauges.ts";

function inPhase(phase: unknown): CustomObject {
  return { metadata: { name: "x" }, ...(phase === undefined ? {} : { status: { phase } }) };
}

test("sets and hibernations are counted by phase when the metrics are read", async () => {
  const registry = createRegistry("test");
  const sets = ["Running", "Running", "Suspended", undefined, "Flying"].map(inPhase);
  const hibernations = [inPhase("Hibernated")];
  exportPhaseGauges(registry, { sets: { list: () => sets }, hibernations: { list: () => hibernations } });
  const seen = async (name: string) => {
    const metric = await registry.getSingleMetric(`cocoon_operator_${name}`)?.get();
    const values = metric?.values.map(({ labels, value }) => [String(labels["phase"]), value] as const) ?? [];
    return Object.fromEntries(values.filter(([, value]) => value > 0));
  };
  assert.deepEqual(await seen("cocoonsets"), { Running: 2, Suspended: 1, Pending: 2 });
  assert.deepEqual(await seen("cocoonhibernations"), { Hibernated: 1 });
  sets.length = 1;
  assert.deepEqual(await seen("cocoonsets"), { Running: 1 }, "what is gone is not counted");
  const text = await registry.metrics();
  assert.match(text, /cocoon_operator_cocoonsets\{phase="Failed"\} 0/);
  assert.match(text, /cocoon_operator_cocoonhibernations\{phase="Waking"\} 0/);
});
