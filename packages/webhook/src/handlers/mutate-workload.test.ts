import assert from "node:assert/strict";
import { test } from "node:test";
import { hostTaint } from "@cocoon/contract";
import { applyJsonPatch } from "@cocoon/core/json-patch";
import type { AdmissionRequest } from "@cocoon/kube/admission";
import { mutateWorkloads } from "./mutate-workload.ts";

const machines = { template: { spec: { tolerations: [{ key: hostTaint.key }] } } };

function strategyAfter(spec: object): unknown {
  const object = { spec };
  const { verdict } = mutateWorkloads({
    operation: "CREATE",
    kind: { group: "apps", version: "v1", kind: "Deployment" },
    subResource: "",
    namespace: "ns",
    name: "box",
    object,
  } as unknown as AdmissionRequest);
  if (verdict.kind === "deny") return verdict.message;
  const patch = "patch" in verdict ? verdict.patch : [];
  return (applyJsonPatch(object, patch ?? []) as { spec: { strategy?: unknown } }).spec.strategy;
}

test("a Deployment of machines rolls out without surge", () => {
  const rolling = (rollingUpdate: object) => ({ type: "RollingUpdate", rollingUpdate });
  const rows: readonly (readonly [given: unknown, after: unknown])[] = [
    [undefined, rolling({ maxSurge: 0, maxUnavailable: "25%" })],
    [rolling({ maxSurge: "25%", maxUnavailable: "25%" }), rolling({ maxSurge: 0, maxUnavailable: "25%" })],
    [rolling({ maxSurge: 1, maxUnavailable: 0 }), rolling({ maxSurge: 0, maxUnavailable: 1 })],
    [rolling({ maxSurge: 2, maxUnavailable: "0%" }), rolling({ maxSurge: 0, maxUnavailable: 1 })],
    [rolling({ maxSurge: 0, maxUnavailable: 3 }), rolling({ maxSurge: 0, maxUnavailable: 3 })],
    [{ type: "Recreate" }, { type: "Recreate" }],
  ];
  for (const [given, after] of rows)
    assert.deepEqual(strategyAfter({ ...machines, ...(given ? { strategy: given } : {}) }), after);
});

test("other Deployments keep their strategy", () => {
  const strategy = { type: "RollingUpdate", rollingUpdate: { maxSurge: 1 } };
  assert.deepEqual(strategyAfter({ template: { spec: {} }, strategy }), strategy);
});
