import assert from "node:assert/strict";
import { test } from "node:test";
import { createRegistry, Fault } from "@cocoon/core";
import type { Pod } from "@cocoon/kubelet";
import type { CloneSpec } from "@cocoon/vm";
import { createVkMetrics } from "../metrics.ts";
import { bringUp } from "./bring-up.ts";
import type { StepContext } from "./step-context.ts";

const signal = new AbortController().signal;

interface Way {
  readonly kind: "clone" | "run";
  readonly os?: string;
  readonly restoreMode?: StepContext["restoreMode"];
}

/** What the runtime is asked for when a machine is made that way. */
async function askedBy({ kind, os = "linux", restoreMode = "mmap" }: Way): Promise<Partial<CloneSpec>> {
  const annotations = {
    "vm.cocoonstack.io/name": "vk-a",
    "cocoonset.cocoonstack.io/image": "base:1",
    "cocoonset.cocoonstack.io/mode": "clone",
    "cocoonset.cocoonstack.io/os": os,
  };
  const amounts = { "kubernetes.io/batch-cpu": "1500", "kubernetes.io/batch-memory": "2Gi" };
  const pod = {
    metadata: { name: "p", namespace: "n", uid: "u", annotations },
    spec: { containers: [{ name: "agent", image: "x", resources: { requests: amounts, limits: amounts } }] },
  } as unknown as Pod;
  let asked: Partial<CloneSpec> | undefined;
  const make = (spec: Partial<CloneSpec>) => {
    asked = spec;
    return Promise.reject(new Fault("unavailable", "far enough"));
  };
  const context = {
    signal,
    writer: { pod },
    metrics: createVkMetrics(createRegistry("test")),
    restoreMode,
    cloneRoots: [],
    login: { user: "root" },
    macosBin: "/nowhere",
    tell: () => undefined,
    runtime: {
      snapshots: { inspect: () => Promise.resolve({ id: "s" }) },
      images: { pull: () => Promise.resolve() },
      describe: () => Promise.resolve({ minimumMemoryBytes: 2 ** 29, minimumStorageBytes: 0 }),
      clone: make,
      run: make,
    },
  } as unknown as StepContext;
  await assert.rejects(bringUp(context, { kind }, { signal }), /far enough/);
  assert.ok(asked);
  return asked;
}

test("memory comes back as VK_RESTORE_MODE says, except Windows', which is copied", async () => {
  for (const restoreMode of ["copy", "ondemand", "mmap"] as const) {
    assert.equal((await askedBy({ kind: "clone", restoreMode })).restoreMode, restoreMode);
    const windows = await askedBy({ kind: "clone", restoreMode, os: "windows" });
    assert.equal(windows.restoreMode, "copy");
  }
});

test("a machine on batch resources is as large as it asks, and gives way to others", async () => {
  const { cpus, memoryBytes, cpuPolicy } = await askedBy({ kind: "run" });
  assert.deepEqual({ cpus, memoryBytes }, { cpus: 2, memoryBytes: 2 ** 31 });
  assert.deepEqual(cpuPolicy, { weight: 1, quotaMicros: 150_000, periodMicros: 100_000 });
  assert.equal((await askedBy({ kind: "clone" })).cpuPolicy?.weight, 1);
});
