import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { readCocoonSetSpec, type CocoonSet } from "../cocoonset.ts";
import type { SetPhase } from "../cocoonset-status.ts";
import { setPhases } from "../cocoonset-status.ts";
import { readCocoonHibernation, type CocoonHibernation } from "../hibernation.ts";
import { golden } from "../testing/golden.ts";
import {
  forgetSnapshotPatch,
  fromLegacyCocoonSet,
  fromLegacyHibernation,
  fromLegacyHibernationStatus,
  readLegacyCocoonSet,
  readLegacyHibernation,
  readSnapshotLedger,
  recordSnapshotPatch,
  snapshotReference,
  toLegacyCocoonSetSpec,
  toLegacyCocoonSetStatus,
  toLegacyHibernationSpec,
  toLegacyHibernationStatus,
  type LegacyCocoonSetSpec,
  type LegacyHibernation,
} from "./index.ts";

const legacy = (spec: unknown, status?: unknown) =>
  readLegacyCocoonSet({ metadata: { name: "demo", namespace: "lab" }, spec, status });

test("a set of the older API becomes one of the current", () => {
  const { set, waiting } = fromLegacyCocoonSet(
    legacy({
      suspend: true,
      nodeName: "cocoon-pool-233",
      snapshotPolicy: "main-only",
      agent: {
        image: "team/base:v1",
        replicas: 2,
        storage: "100G",
        resources: { cpu: "2", memory: "4Gi" },
        envFrom: [{ secretRef: { name: "env" } }],
        serviceAccountName: "bot",
      },
      toolboxes: [
        { name: "shell", image: "ubuntu:24.04", os: "Linux" },
        {
          name: "win",
          os: "windows",
          mode: "static",
          staticIP: "10.0.0.9",
          staticVMID: "q-1",
          vncPort: 5901,
        },
      ],
    }),
  );
  assert.deepEqual(waiting, []);
  assert.deepEqual(set, {
    apiVersion: "cocoonset.cocoonstack.io/v1",
    kind: "CocoonSet",
    metadata: { name: "demo", namespace: "lab" },
    spec: {
      suspend: true,
      snapshotPolicy: "main-only",
      nodeName: "cocoon-pool-233",
      agent: {
        image: "team/base:v1",
        replicas: 2,
        storage: "100G",
        resources: { limits: { cpu: "2", memory: "4Gi" } },
        envFrom: [{ secretRef: { name: "env" } }],
        serviceAccountName: "bot",
      },
      toolboxes: [
        { name: "shell", mode: "run", image: "ubuntu:24.04", os: "linux" },
        {
          name: "win",
          mode: "static",
          os: "windows",
          staticIP: "10.0.0.9",
          staticVMID: "q-1",
          vncPort: 5901,
        },
      ],
    },
  });
});

test("a static toolbox without address waits until somebody knows it", () => {
  const spec = { agent: { image: "x" }, toolboxes: [{ name: "win", os: "windows", mode: "static" }] };
  const box = (conversion: ReturnType<typeof fromLegacyCocoonSet>) => conversion.set.spec.toolboxes?.[0];
  const nobody = fromLegacyCocoonSet(legacy(spec));
  assert.deepEqual(nobody.waiting, ["win"]);
  assert.equal(box(nobody)?.awaitAddress, true);

  const hinted = fromLegacyCocoonSet(
    legacy(spec, { toolboxes: [{ name: "win", ip: "10.0.0.8", vmID: "q-8" }] }),
  );
  assert.deepEqual(hinted.waiting, []);
  assert.deepEqual([box(hinted)?.staticIP, box(hinted)?.staticVMID], ["10.0.0.8", "q-8"]);

  const half = fromLegacyCocoonSet(legacy(spec), () => ({ ip: "10.0.0.7" }));
  assert.deepEqual(half.waiting, ["win"]);
  assert.deepEqual([box(half)?.staticIP, box(half)?.awaitAddress], ["10.0.0.7", true]);

  const told = fromLegacyCocoonSet(
    legacy(spec, { toolboxes: [{ name: "win", ip: "10.0.0.8", vmID: "q-8" }] }),
    () => ({
      ip: "10.0.0.7",
      vmId: "q-7",
    }),
  );
  assert.equal(box(told)?.staticIP, "10.0.0.7", "the pod knows better than an old status");
});

const name = fc.stringMatching(/^[a-z]{1,6}$/);
const optional = <Value>(value: fc.Arbitrary<Value>) => fc.option(value, { nil: undefined });
const resources = optional(
  fc.record({ cpu: fc.constantFrom("1", "500m"), memory: fc.constantFrom("1Gi", "512Mi") }),
);
const machine = {
  network: optional(name),
  storage: optional(fc.constantFrom("100G", "20Gi", "1024Mi")),
  resources,
};
const toolbox = fc.oneof(
  fc.record({
    name,
    mode: fc.constantFrom("run", "clone"),
    image: name,
    os: fc.constantFrom("linux", "windows", "android"),
    ...machine,
  }),
  fc.record({
    name,
    mode: fc.constant("static"),
    os: fc.constant("windows"),
    staticIP: optional(fc.ipV4()),
    staticVMID: optional(name),
    vncPort: optional(fc.nat(65_535)),
    ...machine,
  }),
);
const legacySpec = fc.record({
  suspend: fc.boolean(),
  nodeName: optional(name),
  snapshotPolicy: fc.constantFrom("always", "main-only", "never"),
  agent: fc.record({
    image: name,
    replicas: fc.nat(9),
    mode: fc.constantFrom("clone", "run"),
    os: fc.constantFrom("linux", "windows"),
    serviceAccountName: optional(name),
    envFrom: optional(fc.array(fc.record({ secretRef: fc.record({ name }) }), { maxLength: 2 })),
    ...machine,
  }),
  toolboxes: optional(fc.uniqueArray(toolbox, { selector: (each) => each.name, maxLength: 3 })),
});

/** As JSON carries it: without members that are undefined. */
const plain = <Value>(value: Value): Value => JSON.parse(JSON.stringify(value)) as Value;

test("a set of the older API survives the way to the current one and back", () => {
  fc.assert(
    fc.property(legacySpec, (spec) => {
      const before = legacy(plain(spec));
      const current = readCocoonSetSpec(fromLegacyCocoonSet(before).set.spec);
      const after: LegacyCocoonSetSpec = toLegacyCocoonSetSpec(current);
      assert.deepEqual(plain(after), plain(before.spec));
    }),
  );
});

test("a current set that the older API can express survives the way there and back", () => {
  fc.assert(
    fc.property(legacySpec, (spec) => {
      const current = readCocoonSetSpec(fromLegacyCocoonSet(legacy(plain(spec))).set.spec);
      const there = toLegacyCocoonSetSpec(current);
      const back = readCocoonSetSpec(fromLegacyCocoonSet(legacy(plain(there))).set.spec);
      assert.deepEqual(plain(back), plain(current));
    }),
  );
});

test("the older status tells the older phases and the snapshot of sleeping machines", () => {
  const phases = Object.fromEntries(
    setPhases.map((phase: SetPhase) => [phase, toLegacyCocoonSetStatus({ phase }).phase]),
  );
  assert.deepEqual(phases, {
    Pending: "Scaling",
    Scaling: "Scaling",
    Running: "Running",
    Suspending: "Scaling",
    Suspended: "Suspended",
    Waking: "Scaling",
    Migrating: "Scaling",
    Failed: "Failed",
  });
  const [sample] = golden("cocoonsets") as CocoonSet[];
  assert.ok(sample?.status);
  const status = plain(
    toLegacyCocoonSetStatus(sample.status, (vm) =>
      vm === "vk-lab-atlas-1" ? `registry/${vm}:hibernate` : undefined,
    ),
  );
  assert.equal(status.agents?.[1]?.snapshotRef, "registry/vk-lab-atlas-1:hibernate");
  assert.equal(status.agents?.[0]?.snapshotRef, undefined);
  assert.equal(status.toolboxes?.[1]?.vncPort, 5907);
  assert.doesNotThrow(() => legacy({ agent: { image: "x" } }, status));
});

test("a hibernation of the older API becomes one of the current and back", () => {
  const { older, current } = golden("hibernations") as {
    older: LegacyHibernation;
    current: CocoonHibernation;
  };
  const read = readLegacyHibernation(older);
  assert.deepEqual(plain(read), older);
  const converted = fromLegacyHibernation(read);
  assert.deepEqual(converted.metadata, { name: "atlas-2", namespace: "lab" }, "it is renamed after its pod");
  assert.deepEqual(converted.spec, current.spec);
  assert.deepEqual(toLegacyHibernationSpec(readCocoonHibernation(current).spec), older.spec);
  assert.ok(current.status && older.status);
  assert.deepEqual(toLegacyHibernationStatus(current.status, older.status.snapshotRef), older.status);
  assert.deepEqual(
    fromLegacyHibernationStatus(older.status, { observedGeneration: 1, now: "2026-01-01T00:00:00Z" }),
    current.status,
  );
});

test("every wish survives both ways", () => {
  fc.assert(
    fc.property(name, fc.constantFrom("hibernate" as const, "wake" as const), (podName, action) => {
      const object = readLegacyHibernation({ metadata: { namespace: "lab" }, spec: { podName, action } });
      assert.deepEqual(toLegacyHibernationSpec(fromLegacyHibernation(object).spec), { podName, action });
    }),
  );
});

test("an older hibernation without action means sleep, one without pod is refused", () => {
  assert.equal(readLegacyHibernation({ metadata: {}, spec: { podName: "p" } }).spec.action, "hibernate");
  assert.throws(() => readLegacyHibernation({ metadata: {}, spec: { podName: "" } }), { code: "invalid" });
  const odd = fromLegacyHibernationStatus(
    { phase: "Dreaming" },
    { observedGeneration: 2, now: "2026-01-01T00:00:00Z" },
  );
  assert.deepEqual(toLegacyHibernationStatus({}), {});
  assert.equal(
    fromLegacyHibernation(readLegacyHibernation({ metadata: {}, spec: { podName: "p" } })).metadata.namespace,
    undefined,
  );
  assert.equal(odd.phase, "Pending");
  assert.equal(odd.conditions?.[0]?.lastTransitionTime, "2026-01-01T00:00:00Z");
});

test("the ledger of snapshots holds full references and forgets them", () => {
  assert.equal(
    snapshotReference("http://epoch.cocoon-system.svc:8080/", "vk-lab-atlas-2"),
    "epoch.cocoon-system.svc:8080/vk-lab-atlas-2:hibernate",
  );
  assert.equal(
    snapshotReference("registry.example/base", "vk-a", "latest"),
    "registry.example/base/vk-a:latest",
  );
  assert.deepEqual(recordSnapshotPatch("vk-a", "r/vk-a:hibernate"), { data: { "vk-a": "r/vk-a:hibernate" } });
  assert.deepEqual(forgetSnapshotPatch("vk-a"), { data: { "vk-a": null } });
  assert.deepEqual(
    [...readSnapshotLedger({ data: { a: "r/a:hibernate", b: "" } })],
    [["a", "r/a:hibernate"]],
  );
  assert.equal(readSnapshotLedger(undefined).size, 0);
});
