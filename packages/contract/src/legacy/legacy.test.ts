import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { readCocoonSetSpec, type CocoonSet } from "../cocoonset.ts";
import type { SetPhase } from "../cocoonset-status.ts";
import { setPhases } from "../cocoonset-status.ts";
import type { CocoonHibernation } from "../hibernation.ts";
import { golden } from "../testing/golden.ts";
import {
  fromLegacyCocoonSet,
  fromLegacyHibernation,
  readLegacyCocoonSet,
  readLegacyHibernation,
  readSnapshotReferences,
  snapshotReference,
  toLegacyCocoonSetStatus,
  toLegacyHibernationStatus,
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

test("a static toolbox without address waits until its address is known", () => {
  const spec = { agent: { image: "x" }, toolboxes: [{ name: "win", os: "windows", mode: "static" }] };
  const box = (conversion: ReturnType<typeof fromLegacyCocoonSet>) => conversion.set.spec.toolboxes?.[0];
  const unknown = fromLegacyCocoonSet(legacy(spec));
  assert.deepEqual(unknown.waiting, ["win"]);
  assert.equal(box(unknown)?.awaitAddress, true);

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

test("every set of the older API becomes a valid one of the current with the same machines", () => {
  fc.assert(
    fc.property(legacySpec, (spec) => {
      const { spec: before } = legacy(plain(spec));
      const current = readCocoonSetSpec(fromLegacyCocoonSet(legacy(plain(spec))).set.spec);
      const limits = (machine: {
        resources?: { cpu?: string | undefined; memory?: string | undefined } | undefined;
      }) => ({
        cpu: machine.resources?.cpu,
        memory: machine.resources?.memory,
      });
      const same = ["os", "network", "storage", "image", "mode"] as const;
      for (const [was, is] of [
        [before.agent, current.agent] as const,
        ...(before.toolboxes ?? []).map((toolbox, index) => [toolbox, current.toolboxes?.[index]] as const),
      ]) {
        for (const field of same) if (was[field]) assert.equal(String(is?.[field]), was[field], field);
        assert.deepEqual({ cpu: undefined, memory: undefined, ...is?.resources?.limits }, limits(was));
      }
      assert.equal(current.agent.replicas, before.agent.replicas);
      assert.equal(current.agent.serviceAccountName, before.agent.serviceAccountName);
      assert.deepEqual(plain(current.agent.envFrom ?? null), plain(before.agent.envFrom ?? null));
      assert.equal(current.nodeName, before.nodeName);
      assert.equal(current.snapshotPolicy, before.snapshotPolicy);
      assert.equal(current.suspend ?? false, before.suspend);
    }),
  );
});

test("the older status has the older phases and the snapshot of sleeping machines", () => {
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

test("a hibernation of the older API becomes one of the current", () => {
  const { older, current } = golden("hibernations") as {
    older: LegacyHibernation;
    current: CocoonHibernation;
  };
  const read = readLegacyHibernation(older);
  assert.deepEqual(plain(read), older);
  const converted = fromLegacyHibernation(read);
  assert.deepEqual(converted.metadata, { name: "atlas-2", namespace: "lab" }, "it is renamed after its pod");
  assert.deepEqual(converted.spec, current.spec);
  assert.ok(current.status && older.status);
  assert.deepEqual(toLegacyHibernationStatus(current.status, older.status.snapshotRef), older.status);
});

test("an older hibernation without action means sleep, one without pod is refused", () => {
  assert.equal(readLegacyHibernation({ metadata: {}, spec: { podName: "p" } }).spec.action, "hibernate");
  assert.throws(() => readLegacyHibernation({ metadata: {}, spec: { podName: "" } }), { code: "invalid" });
  assert.deepEqual(toLegacyHibernationStatus({}), {});
  assert.equal(
    fromLegacyHibernation(readLegacyHibernation({ metadata: {}, spec: { podName: "p" } })).metadata.namespace,
    undefined,
  );
});

test("the ConfigMap of snapshots holds full references", () => {
  assert.equal(
    snapshotReference("http://epoch.cocoon-system.svc:8080/", "vk-lab-atlas-2"),
    "epoch.cocoon-system.svc:8080/vk-lab-atlas-2:hibernate",
  );
  assert.equal(
    snapshotReference("registry.example/base", "vk-a", "latest"),
    "registry.example/base/vk-a:latest",
  );
  assert.deepEqual(
    [...readSnapshotReferences({ data: { a: "r/a:hibernate", b: "" } })],
    [["a", "r/a:hibernate"]],
  );
  assert.equal(readSnapshotReferences(undefined).size, 0);
});
