import assert from "node:assert/strict";
import { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { test } from "node:test";
import { createRegistry, Fault } from "@cocoon/core";
import type { Pod } from "@cocoon/kubelet";
import type { CloneSpec, Hypervisor, RunSpec } from "@cocoon/vm";
import { createVkMetrics } from "../metrics.ts";
import { noDns } from "../pod-network.ts";
import { bringUp } from "./bring-up.ts";
import type { StepContext } from "./step-context.ts";

const config = { cpus: 1, memoryBytes: 1, storageBytes: 2 ** 30, os: "linux", labels: {} };
const signal = new AbortController().signal;

interface Way {
  readonly kind: "clone" | "run" | "fork";
  readonly canRunMacos?: boolean;
  readonly os?: string;
  readonly restoreMode?: StepContext["restoreMode"];
  readonly annotations?: Readonly<Record<string, string>>;
  /** Of the engine and of the snapshot. */
  readonly hypervisor?: Hypervisor;
  readonly savedBy?: Hypervisor;
  readonly snapshots?: object;
  readonly images?: object;
}

/** What the runtime is asked for when a machine is made that way. */
async function askedBy(way: Way): Promise<Partial<CloneSpec & RunSpec>> {
  const { kind, os = "linux", restoreMode = "mmap", hypervisor = "qemu", savedBy = hypervisor } = way;
  const annotations = {
    "vm.cocoonstack.io/name": "vk-a",
    "cocoonset.cocoonstack.io/image": "base:1",
    "cocoonset.cocoonstack.io/mode": "clone",
    "cocoonset.cocoonstack.io/os": os,
    ...way.annotations,
  };
  const amounts = { "kubernetes.io/batch-cpu": "1500", "kubernetes.io/batch-memory": "2Gi" };
  const pod = {
    metadata: { name: "p", namespace: "n", uid: "u", annotations },
    spec: { containers: [{ name: "agent", image: "x", resources: { requests: amounts, limits: amounts } }] },
  } as unknown as Pod;
  let asked: Partial<CloneSpec & RunSpec> | undefined;
  const make = (spec: Partial<CloneSpec & RunSpec>) => {
    asked = spec;
    return Promise.reject(new Fault("unavailable", "far enough"));
  };
  const context = {
    signal,
    tracked: { writer: { pod } },
    metrics: createVkMetrics(createRegistry("test")),
    ...(way.snapshots ? { snapshots: way.snapshots } : {}),
    restoreMode,
    cloneRoots: [],
    login: { user: "root" },
    dns: noDns,
    description: {
      engine: hypervisor === "qemu" ? "qemu" : "cocoon",
      hypervisor,
      minimumMemoryBytes: 2 ** 29,
      minimumStorageBytes: 0,
      can: { cloneSizes: ["storageBytes"], ...(way.canRunMacos ? { macos: true } : {}) },
    },
    emit: () => undefined,
    runtime: {
      snapshots: { inspect: () => Promise.resolve({ id: "s", name: "base", hypervisor: savedBy, config }) },
      images: { pull: () => Promise.resolve(), ...way.images },
      clone: make,
      run: make,
    },
  } as unknown as StepContext;
  const step = kind === "fork" ? { kind, source: "vk-b" } : { kind };
  await bringUp(context, step, { signal }).catch((error: unknown) => {
    if (!/far enough/.test(String(error))) throw error;
  });
  assert.ok(asked);
  return asked;
}

test("memory comes back as VK_RESTORE_MODE says, except Windows', which is copied", async () => {
  for (const restoreMode of ["copy", "ondemand", "mmap"] as const) {
    assert.equal((await askedBy({ kind: "clone", restoreMode })).restoreMode, restoreMode);
    for (const os of ["windows", "Windows", "WINDOWS"])
      assert.equal((await askedBy({ kind: "clone", restoreMode, os })).restoreMode, "copy", os);
  }
});

test("a machine boots as the system that its pod names, in any case", async () => {
  const systems = { windows: "windows", Windows: "windows", Android: "android", linux: "linux", "": "linux" };
  for (const [os, wanted] of Object.entries(systems))
    assert.equal((await askedBy({ kind: "run", os })).os, wanted, os);
});

test("macOS boots its image where cocoon-macos is, whatever the mode, and is refused elsewhere", async () => {
  for (const os of ["macos", "macOS"])
    for (const kind of ["run", "clone"] as const) {
      await assert.rejects(
        askedBy({ kind, os }),
        /no cocoon-macos: install it where VK_COCOON_MACOS_BIN says/,
      );
      const asked = await askedBy({ kind, os, canRunMacos: true });
      assert.deepEqual([asked.os, asked.image, asked.cpus], ["macos", "base:1", 2]);
    }
  await assert.rejects(askedBy({ kind: "fork", os: "macos", canRunMacos: true }), /it cannot fork/);
});

test("a machine on batch resources is as large as it asks, and gives way to others", async () => {
  const { cpus, memoryBytes, cpuPolicy } = await askedBy({ kind: "run" });
  assert.deepEqual({ cpus, memoryBytes }, { cpus: 2, memoryBytes: 2 ** 31 });
  assert.deepEqual(cpuPolicy, { weight: 1, quotaMicros: 150_000, periodMicros: 100_000 });
  assert.equal((await askedBy({ kind: "clone" })).cpuPolicy?.weight, 1);
});

test("a clone's disk grows where the pod asks for more, and never shrinks", async () => {
  const storage = (size: string) =>
    askedBy({ kind: "clone", annotations: { "cocoonset.cocoonstack.io/storage": size } });
  assert.equal((await storage("2Gi")).storageBytes, 2 ** 31);
  assert.equal((await storage("1Mi")).storageBytes, undefined);
  assert.equal((await storage("2Gi")).cpus, undefined, "the saved guest keeps its CPUs");
});

test("a snapshot of another hypervisor than the pod's backend is not cloned", async () => {
  const backend = (text: string) => ({ "vm.cocoonstack.io/backend": text });
  const way = { kind: "clone", hypervisor: "cloud-hypervisor" } as const;
  assert.ok(await askedBy({ ...way, annotations: backend("cloud-hypervisor") }));
  assert.ok(await askedBy({ ...way, savedBy: "firecracker", annotations: backend("firecracker") }));
  const refused = /was saved by .*, but this machine continues only from/;
  for (const more of [
    { ...way, savedBy: "firecracker", annotations: backend("cloud-hypervisor") },
    { ...way, savedBy: "qemu" },
    { kind: "clone", savedBy: "cloud-hypervisor" },
  ] as const)
    await assert.rejects(askedBy(more), refused);
});

test("backend and direct I/O reach the engine", async () => {
  const annotations = {
    "vm.cocoonstack.io/backend": "firecracker",
    "vm.cocoonstack.io/no-direct-io": "true",
  };
  const { backend, directIo } = await askedBy({ kind: "run", annotations });
  assert.deepEqual({ backend, directIo }, { backend: "firecracker", directIo: false });
});

test("an external engine gets a registry's cloud image as a stream, once per digest", async () => {
  const imported: string[] = [];
  const snapshots = {
    inRegistry: { findKind: () => Promise.resolve("cloud-image") },
    openDisk: () => Promise.resolve({ name: "base:0123456789ab", content: Readable.from(["disk"]) }),
  };
  const images = {
    inspect: (name: string) =>
      imported.length > 0 ? Promise.resolve({ name }) : Promise.reject(new Fault("notFound", "not here")),
    import: async (name: string, [source]: readonly Readable[]) => {
      imported.push(`${name} ${source ? await text(source) : ""}`);
      return { name };
    },
    pull: () => Promise.reject(new Error("the command cannot pull it")),
  };
  const way = { kind: "run", hypervisor: "cloud-hypervisor", snapshots, images } as const;
  assert.equal((await askedBy(way)).image, "base:0123456789ab");
  assert.equal((await askedBy(way)).image, "base:0123456789ab");
  assert.deepEqual(imported, ["base:0123456789ab disk"]);
});
