import assert from "node:assert/strict";
import { test } from "node:test";
import type { NetworkPolicy } from "@cocoon/kube";
import { planPolicy } from "./policy.ts";

const set = (isolation?: string) => ({
  metadata: { namespace: "lab", name: "atlas", uid: "s1" },
  spec: isolation === undefined ? {} : { network: { isolation } },
});
const machines = { matchLabels: { "cocoonset.cocoonstack.io/name": "atlas" } };

function create(isolation?: string): NetworkPolicy {
  const plan = planPolicy(set(isolation), undefined);
  assert.ok(plan.kind === "create");
  return plan.policy;
}

test("by default machines are reached from their own namespace only", () => {
  const { metadata, spec } = create();
  assert.equal(metadata.name, "atlas-isolation");
  assert.equal(metadata.ownerReferences?.[0]?.uid, "s1");
  assert.deepEqual(spec, {
    podSelector: machines,
    policyTypes: ["Ingress"],
    ingress: [{ from: [{ podSelector: {} }] }],
  });
});

test("Set keeps them among themselves, None removes the policy, and a change is put right", () => {
  assert.deepEqual(create("Set").spec?.ingress, [{ from: [{ podSelector: machines }] }]);
  assert.equal(planPolicy(set("None"), undefined).kind, "none");
  assert.equal(planPolicy(set("None"), create()).kind, "delete");
  assert.equal(planPolicy(set(), create()).kind, "none");
  assert.equal(planPolicy(set("Set"), create()).kind, "patch");
});

test("a set that ends makes no policy", () => {
  const { metadata, spec } = set();
  assert.equal(
    planPolicy({ metadata: { ...metadata, deletionTimestamp: "2026-01-01T00:00:00Z" }, spec }, undefined)
      .kind,
    "none",
  );
});
