/**
 * What it costs to read the VM spec and the lifecycle of 10,000 pods: by hand, by a zod schema that does the same, and by
 * that schema where code generation is forbidden (a page with a strict content security policy). All read the same
 * annotations and must give the same values. Beside it the price of reading a whole CocoonSet. Decides how hot readers
 * are written: see docs/decisions.
 */
import assert from "node:assert/strict";
import { cpus } from "node:os";
import {
  annotation,
  isLifecycleState,
  legacyAnnotation,
  readCocoonSet,
  readLifecycle,
  readVmSpec,
  vmName,
  writeVmSpec,
  type LifecycleStatus,
  type VmSpec,
} from "@cocoon/contract";
import * as z from "zod";

const pods = 10_000;
const sets = 1_000;
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
function wireSchema() {
  return z
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
}

const compiled = wireSchema();
const byZod: Reader = (annotations) => compiled.parse(annotations);
z.config({ jitless: true });
const interpreted = wireSchema();
const byInterpretedZod: Reader = (annotations) => interpreted.parse(annotations);
z.config({ jitless: false });

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

for (const annotations of sample.slice(0, 100)) {
  assert.deepEqual(byZod(annotations), byHand(annotations));
  assert.deepEqual(byInterpretedZod(annotations), byHand(annotations));
}

let sink = 0;
function measureTime(reader: Reader): number {
  const start = performance.now();
  for (const annotations of sample) sink += reader(annotations).lifecycle.observedGeneration;
  return performance.now() - start;
}

const set = {
  metadata: { name: "atlas", namespace: "lab", generation: 3 },
  spec: {
    agent: { image: "team/base-agent:v7", replicas: 3, storage: "60Gi", resources: { limits: { cpu: "2" } } },
    toolboxes: [{ name: "browser", image: "desktop:24" }],
  },
  status: {
    phase: "Running",
    agents: [0, 1, 2, 3].map((slot) => ({ slot, role: slot === 0 ? "main" : "sub-agent" })),
  },
};
function timeOfSets(): number {
  const start = performance.now();
  for (let index = 0; index < sets; index += 1) sink += readCocoonSet(set).spec.agent.replicas;
  return performance.now() - start;
}

const measures = {
  hand: () => measureTime(byHand),
  zod: () => measureTime(byZod),
  interpretedZod: () => measureTime(byInterpretedZod),
  cocoonSets: timeOfSets,
} as const;
type Measure = keyof typeof measures;
const names = Object.keys(measures) as Measure[];
const times: Record<Measure, number[]> = { hand: [], zod: [], interpretedZod: [], cocoonSets: [] };
for (let round = 0; round < warmUpRounds + rounds; round += 1) {
  for (const name of round % 2 === 0 ? names : names.toReversed()) {
    const ms = measures[name]();
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

const [hand, zod, interpretedZod] = [summary(times.hand), summary(times.zod), summary(times.interpretedZod)];
const zodOverHand = rounded(zod.medianMs / hand.medianMs);
const interpretedZodOverHand = rounded(interpretedZod.medianMs / hand.medianMs);
const cocoonSetMicroseconds = rounded((summary(times.cocoonSets).medianMs * 1_000) / sets);
console.log(
  `${pods} pods: by hand ${hand.medianMs} ms, by zod ${zod.medianMs} ms (${zodOverHand} times), ` +
    `interpreted ${interpretedZod.medianMs} ms (${interpretedZodOverHand} times); one CocoonSet ${cocoonSetMicroseconds} µs`,
);
console.log(
  JSON.stringify({
    bench: "contract",
    env: {
      node: process.version,
      cpu: cpus()[0]?.model ?? "unknown",
      cores: cpus().length,
      pods,
      sets,
      rounds,
    },
    figures: { hand, zod, interpretedZod, zodOverHand, interpretedZodOverHand, cocoonSetMicroseconds },
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
