/**
 * What it costs to read the VM spec and the lifecycle of 10,000 pods: by hand, and by a zod schema that does the same.
 * Both read the same annotations and must give the same values. Decides how hot readers are written: see
 * docs/decisions.
 */
import assert from "node:assert/strict";
import { cpus } from "node:os";
import {
  annotation,
  isLifecycleState,
  legacyAnnotation,
  readLifecycle,
  readVmSpec,
  vmName,
  writeVmSpec,
  type LifecycleStatus,
  type VmSpec,
} from "@cocoon/contract";
import { z } from "zod";

const pods = 10_000;
const rounds = 15;
const warmUpRounds = 3;

type Texts = Readonly<Record<string, string>>;
type Reader = (annotations: Texts) => { readonly spec: VmSpec; readonly lifecycle: LifecycleStatus };

const byHand: Reader = (annotations) => ({
  spec: readVmSpec(annotations),
  lifecycle: readLifecycle(annotations),
});

const text = z.string().optional();
const older = legacyAnnotation;
const wire = z
  .object({
    [annotation.vmName]: text,
    [annotation.image]: text,
    [annotation.mode]: text,
    [annotation.os]: text,
    [annotation.storage]: text,
    [annotation.network]: text,
    [annotation.snapshotPolicy]: text,
    [annotation.forkFrom]: text,
    [annotation.connType]: text,
    [annotation.backend]: text,
    [annotation.probePort]: text,
    [annotation.managed]: text,
    [annotation.forcePull]: text,
    [annotation.noDirectIo]: text,
    [annotation.lifecycleState]: text,
    [annotation.lifecycleObservedGeneration]: text,
    [annotation.lifecycleStateMessage]: text,
    [older.vmName]: text,
    [older.image]: text,
    [older.mode]: text,
    [older.os]: text,
    [older.storage]: text,
    [older.network]: text,
    [older.snapshotPolicy]: text,
    [older.forkFrom]: text,
    [older.managed]: text,
  })
  .transform((read) => {
    const get = (key: keyof typeof read, olderKey?: keyof typeof read): string =>
      read[key] || (olderKey === undefined ? "" : (read[olderKey] ?? ""));
    const flag = (key: keyof typeof read, olderKey?: keyof typeof read): boolean =>
      (read[key] ?? (olderKey === undefined ? undefined : read[olderKey])) === "true";
    const state = get(annotation.lifecycleState);
    const generation = get(annotation.lifecycleObservedGeneration);
    return {
      spec: {
        vmName: get(annotation.vmName, older.vmName),
        image: get(annotation.image, older.image),
        mode: get(annotation.mode, older.mode),
        os: get(annotation.os, older.os),
        storage: get(annotation.storage, older.storage),
        network: get(annotation.network, older.network),
        snapshotPolicy: get(annotation.snapshotPolicy, older.snapshotPolicy),
        forkFrom: get(annotation.forkFrom, older.forkFrom),
        connType: get(annotation.connType),
        backend: get(annotation.backend),
        probePort: get(annotation.probePort),
        managed: flag(annotation.managed, older.managed),
        forcePull: flag(annotation.forcePull),
        noDirectIo: flag(annotation.noDirectIo),
      },
      lifecycle: {
        state: isLifecycleState(state) ? state : ("" as const),
        observedGeneration: /^\d{1,15}$/.test(generation) ? Number(generation) : 0,
        message: get(annotation.lifecycleStateMessage),
      },
    };
  });

const bySchema: Reader = (annotations) => wire.parse(annotations);

/** Pods as an informer delivers them: parsed from JSON, with annotations of others among ours. */
const sample: readonly Texts[] = Array.from({ length: pods }, (_, index) => {
  const key = { namespace: "lab", set: `set-${index >> 2}` };
  const slot = index % 4;
  const annotations = {
    "kubectl.kubernetes.io/last-applied-configuration": "{}",
    "cni.example.com/attachment": `net-${index}`,
    ...writeVmSpec({
      vmName: vmName(key, slot),
      image: "team/base-agent:v7",
      mode: "clone",
      os: "linux",
      storage: "60Gi",
      snapshotPolicy: "main-only",
      backend: "cloud-hypervisor",
      probePort: "22",
      managed: true,
      forkFrom: slot === 0 ? "" : vmName(key, 0),
    }),
    [annotation.vmId]: `ch-${index}`,
    [annotation.ip]: "10.9.0.4",
    [annotation.generation]: "3",
    [annotation.lifecycleState]: "ready",
    [annotation.lifecycleObservedGeneration]: "3",
  };
  return JSON.parse(JSON.stringify(annotations)) as Texts;
});

for (const annotations of sample.slice(0, 100)) assert.deepEqual(bySchema(annotations), byHand(annotations));

let sink = 0;
function timeOf(reader: Reader): number {
  const start = performance.now();
  for (const annotations of sample) sink += reader(annotations).lifecycle.observedGeneration;
  return performance.now() - start;
}

const readers = { hand: byHand, zod: bySchema } as const;
const times: Record<keyof typeof readers, number[]> = { hand: [], zod: [] };
for (let round = 0; round < warmUpRounds + rounds; round += 1) {
  const order = round % 2 === 0 ? (["hand", "zod"] as const) : (["zod", "hand"] as const);
  for (const name of order) {
    const ms = timeOf(readers[name]);
    if (round >= warmUpRounds) times[name].push(ms);
  }
}
assert.ok(sink > 0);

const rounded = (value: number) => Number(value.toFixed(3));
function summary(values: readonly number[]) {
  const sorted = values.toSorted((left, right) => left - right);
  const at = (share: number) => sorted[Math.floor(share * (sorted.length - 1))] ?? Number.NaN;
  return { medianMs: rounded(at(0.5)), fastestMs: rounded(at(0)), slowestMs: rounded(at(1)) };
}

const hand = summary(times.hand);
const zod = summary(times.zod);
const ratio = rounded(zod.medianMs / hand.medianMs);
console.log(
  `by hand: ${hand.medianMs} ms for ${pods} pods, by zod: ${zod.medianMs} ms, ${ratio} times as long`,
);
console.log(
  JSON.stringify({
    bench: "contract",
    env: { node: process.version, cpu: cpus()[0]?.model ?? "unknown", cores: cpus().length, pods, rounds },
    figures: {
      hand,
      zod,
      zodOverHand: ratio,
      handNanosecondsPerPod: Math.round((hand.medianMs * 1e6) / pods),
    },
    targets: [
      {
        name: "read 10,000 pods by hand (ms)",
        value: hand.medianMs,
        want: "<= 50",
        met: hand.medianMs <= 50,
      },
    ],
  }),
);
