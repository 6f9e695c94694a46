import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { readCocoonSetSpec } from "./cocoonset.ts";
import { annotation, legacyAnnotation } from "./keys.ts";
import { readLifecycle, type LifecycleStatus } from "./lifecycle.ts";
import { golden } from "./testing/golden.ts";
import { readVmRuntime, writeVmRuntime, type VmRuntime } from "./vm-runtime.ts";
import { readVmSpec, buildAgentVmSpec, buildToolboxVmSpec, writeVmSpec, type VmSpec } from "./vm-spec.ts";

type Texts = Record<string, string>;

interface PodSample {
  readonly spec: VmSpec;
  readonly runtime: VmRuntime;
  readonly lifecycle: LifecycleStatus;
  readonly annotations: Texts;
}

test("pods on the wire are read and written as ever", () => {
  for (const [name, sample] of Object.entries(golden("pod-annotations") as Record<string, PodSample>)) {
    assert.deepEqual(readVmSpec(sample.annotations), sample.spec, name);
    assert.deepEqual(readVmRuntime(sample.annotations), sample.runtime, name);
    assert.deepEqual(readLifecycle(sample.annotations), sample.lifecycle, name);
    const lifecycle = Object.fromEntries(
      Object.entries(sample.annotations).filter(([key]) => key.includes("/lifecycle-")),
    );
    const written = { ...writeVmSpec(sample.spec), ...writeVmRuntime(sample.runtime), ...lifecycle };
    assert.deepEqual(written, sample.annotations, name);
  }
});

test("pods of the older API are read through their older keys, which bridged pods carry too", () => {
  const sample = golden("legacy-pod-annotations") as {
    spec: Partial<VmSpec>;
    runtime: VmRuntime;
    annotations: Texts;
  };
  const read = readVmSpec(sample.annotations);
  assert.deepEqual(read, { ...readVmSpec({}), ...sample.spec });
  assert.deepEqual(readVmRuntime(sample.annotations), sample.runtime);
  const bridged = {
    ...writeVmSpec(read, { legacyKeys: true }),
    ...writeVmRuntime(sample.runtime, { legacyKeys: true }),
  };
  for (const [key, value] of Object.entries(sample.annotations)) assert.equal(bridged[key], value, key);
  assert.equal(Object.keys(bridged).length, 2 * Object.keys(sample.annotations).length);
});

test("a new key wins over its older twin", () => {
  assert.equal(readVmSpec({ [annotation.vmName]: "new", [legacyAnnotation.vmName]: "old" }).vmName, "new");
  assert.equal(readVmSpec({ [annotation.managed]: "no", [legacyAnnotation.managed]: "true" }).managed, false);
});

const text = fc.string({ maxLength: 12 });
const vmSpec: fc.Arbitrary<VmSpec> = fc.record(
  {
    vmName: text,
    image: text,
    mode: text,
    os: text,
    storage: text,
    network: text,
    snapshotPolicy: text,
    forkFrom: text,
    connType: text,
    backend: text,
    probePort: text,
    managed: fc.boolean(),
    forcePull: fc.boolean(),
    noDirectIo: fc.boolean(),
  },
  { noNullPrototype: true },
);

test("every VM spec survives being written and read, with and without older keys", () => {
  fc.assert(
    fc.property(vmSpec, fc.boolean(), (spec, legacyKeys) => {
      assert.deepEqual(readVmSpec(writeVmSpec(spec, { legacyKeys })), spec);
    }),
  );
});

test("writing never clears a key", () => {
  fc.assert(
    fc.property(vmSpec, vmSpec, (first, second) => {
      const merged = readVmSpec({ ...writeVmSpec(first), ...writeVmSpec(second) });
      for (const field of Object.keys(first) as (keyof VmSpec)[])
        assert.equal(merged[field], second[field] || first[field]);
    }),
  );
  assert.deepEqual(writeVmSpec({}), {});
});

test("an agent's spec becomes annotations with defaults, a toolbox's likewise", () => {
  const { agent, toolboxes } = readCocoonSetSpec({
    agent: { image: "team/base", storage: "1024Mi", probePort: 0, forcePull: true },
    toolboxes: [
      { name: "box", image: "x", storage: "0.5Gi", connType: "rdp", noDirectIO: true, probePort: 3389 },
      { name: "old", mode: "static", staticIP: "10.0.0.1", staticVMID: "q" },
    ],
  });
  const common = {
    network: "",
    snapshotPolicy: "never",
    connType: "",
    forkFrom: "",
    probePort: "",
    storage: "",
  };
  assert.deepEqual(
    buildAgentVmSpec({ agent, vmName: "vk-a-b-1", snapshotPolicy: "never", forkFrom: "vk-a-b-0" }),
    {
      ...common,
      vmName: "vk-a-b-1",
      image: "team/base",
      mode: "clone",
      os: "linux",
      storage: "1Gi",
      forkFrom: "vk-a-b-0",
      backend: "cloud-hypervisor",
      managed: true,
      forcePull: true,
      noDirectIo: false,
    },
  );
  const [box, old] = toolboxes ?? [];
  assert.ok(box && old);
  assert.deepEqual(buildToolboxVmSpec({ toolbox: box, vmName: "vk-a-b-box", snapshotPolicy: "never" }), {
    ...common,
    vmName: "vk-a-b-box",
    image: "x",
    mode: "run",
    os: "linux",
    storage: "512Mi",
    connType: "rdp",
    backend: "cloud-hypervisor",
    probePort: "3389",
    managed: true,
    forcePull: false,
    noDirectIo: true,
  });
  const adopted = buildToolboxVmSpec({ toolbox: old, vmName: "vk-a-b-old", snapshotPolicy: "never" });
  assert.equal(adopted.managed, false);
  assert.equal(adopted.mode, "static");
});
