import assert from "node:assert/strict";
import { test } from "node:test";
import { annotation } from "@cocoon/contract";
import type { Service } from "@cocoon/kube";
import { canBeService, planService } from "./service.ts";

const set = { metadata: { namespace: "lab", name: "atlas", uid: "s1" } };
const pod = (ip: string) => ({
  metadata: { namespace: "lab", name: "atlas-0", annotations: { [annotation.ip]: ip } },
});

function create(): Service {
  const plan = planService({ set, pods: [pod("10.77.0.5")], service: undefined });
  assert.ok(plan.kind === "create");
  return plan.service;
}

test("a set whose machine has a real address gets a headless Service that selects its machines", () => {
  const { metadata, spec } = create();
  assert.equal(metadata.name, "atlas");
  assert.equal(metadata.ownerReferences?.[0]?.uid, "s1");
  assert.equal(spec?.clusterIP, "None");
  assert.deepEqual(spec?.selector, { "cocoonset.cocoonstack.io/name": "atlas" });
  assert.deepEqual(
    spec?.ports?.map(({ name, port }) => [name, port]),
    [
      ["ssh", 22],
      ["rdp", 3389],
      ["vnc", 5900],
    ],
  );
});

test("loopback addresses, no addresses, and names that Services cannot have make none", () => {
  for (const ip of ["127.88.0.5", ""])
    assert.equal(planService({ set, pods: [pod(ip)], service: undefined }).kind, "none");
  const dotted = { metadata: { ...set.metadata, name: "a.b" } };
  assert.equal(planService({ set: dotted, pods: [pod("10.0.0.1")], service: undefined }).kind, "none");
  const terminating = { metadata: { ...set.metadata, deletionTimestamp: "2026-01-01T00:00:00Z" } };
  assert.equal(planService({ set: terminating, pods: [pod("10.0.0.1")], service: undefined }).kind, "none");
  assert.deepEqual(["atlas", "a-1", "1a", "a.b", "A", "a".repeat(64)].map(canBeService), [
    true,
    true,
    false,
    false,
    false,
    false,
  ]);
});

test("a Service that is as it should be stays, also without machines; one that was changed is put right", () => {
  const service = create();
  const served = {
    ...service,
    spec: {
      ...service.spec,
      ports: service.spec?.ports?.map((port) => ({ ...port, protocol: "TCP", targetPort: port.port })),
    },
  };
  assert.equal(planService({ set, pods: [], service: served as Service }).kind, "none");
  const changed = { ...service, spec: { ...service.spec, selector: { app: "x" } } };
  assert.equal(planService({ set, pods: [], service: changed }).kind, "patch");
});
