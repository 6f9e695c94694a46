import assert from "node:assert/strict";
import { test } from "node:test";
import { readCocoonSetSpec } from "@cocoon/contract";
import { formatSize, snapshotTable } from "../commands/snapshot/ls.ts";
import { readMachineName } from "./machine-name.ts";
import { settingsFromEnvironment } from "./registry-access.ts";
import { restoredSet } from "../commands/snapshot/restore.ts";

test("a machine of the past is known by its name alone", () => {
  const sets = ["demo", "demo-2"];
  const cases: readonly [string, string, string | undefined, number | undefined][] = [
    ["demo", "vk-team-demo-0", "demo", 0],
    ["demo-1", "vk-team-demo-1", "demo", 1],
    ["demo-2", "vk-team-demo-2-0", "demo-2", 0],
    ["vk-team-demo-2", "vk-team-demo-2", "demo", 2],
    ["gone-3", "vk-team-gone-3", "gone", 3],
    ["demo-tools", "vk-team-demo-tools", "demo", undefined],
    ["alone", "vk-team-alone", undefined, undefined],
  ];
  for (const [name, vm, set, slot] of cases)
    assert.deepEqual(readMachineName(name, "team", sets), { vm, set, slot }, name);
});

test("a restored set is one machine like the old one, started from its snapshot", () => {
  const source = { set: "demo", slot: 1, tag: "released-20260102T030405Z" };
  const original = {
    metadata: { name: "demo" },
    spec: {
      nodePool: "big",
      suspend: true,
      schedule: [{ cron: "@daily", action: "Hibernate" as const }],
      toolboxes: [{ name: "t", image: "y" }],
      agent: {
        image: "base",
        mode: "run" as const,
        replicas: 4,
        storage: "20Gi",
        resources: { requests: { memory: "1Gi" } },
      },
    },
  };
  const made = restoredSet({
    name: "new",
    namespace: "team",
    source,
    original,
    image: "vk-team-demo-1:released-20260102T030405Z",
  });
  const spec = readCocoonSetSpec(made.spec);
  assert.deepEqual(
    [spec.nodePool, spec.suspend, spec.schedule, spec.toolboxes],
    ["big", undefined, undefined, undefined],
  );
  assert.deepEqual([spec.agent.mode, spec.agent.replicas, spec.agent.storage], ["clone", 0, "20Gi"]);
  assert.deepEqual(spec.agent.from, source);
  const orphan = restoredSet({
    name: "new",
    namespace: "team",
    source,
    original: undefined,
    image: "vk-team-demo-1:x",
  });
  assert.equal(readCocoonSetSpec(orphan.spec).agent.image, "vk-team-demo-1:x");
});

test("a table says what a snapshot is for, sizes are short", () => {
  assert.deepEqual([0, 512, 1536, 10 * 2 ** 20, 3.5 * 2 ** 30].map(formatSize), [
    "0 B",
    "512 B",
    "1.5 KiB",
    "10 MiB",
    "3.5 GiB",
  ]);
  const row = {
    vmName: "vk-a-b-0",
    tag: "latest",
    digest: `sha256:${"0".repeat(64)}`,
    sizeBytes: 0,
    createdAt: "",
    purpose: "latest",
  } as const;
  assert.match(
    snapshotTable([row], { wide: false, now: 0 }),
    /vk-a-b-0 +latest +sha256:000000000000 +- +- +taken when the machine was deleted$/,
  );
});

test("the registry is the one that the other programs are configured with", () => {
  assert.equal(settingsFromEnvironment({}, {}), undefined);
  assert.deepEqual(
    settingsFromEnvironment({}, { EPOCH_URL: "http://a", OCI_REGISTRY: "b/c", EPOCH_TOKEN: "t" }),
    { address: "b/c", token: "t" },
  );
  assert.deepEqual(settingsFromEnvironment({ registry: "d" }, { OCI_REGISTRY: "b", EPOCH_CA_CERT: "f" }), {
    address: "d",
    caFile: "f",
  });
});
