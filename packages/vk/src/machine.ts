/** What a pod asks of its machine: annotations and resources, read once at the border. */
import {
  annotation,
  readGeneration,
  readHibernate,
  readLifecycle,
  readRestoreFromHibernate,
  readKeepSnapshotOnDelete,
  readText,
  readVmRuntime,
  readVmSpec,
  roleOfPod,
  shouldSnapshot,
  type Annotations,
  type LifecycleStatus,
  type VmSpec,
} from "@cocoon/contract";
import { Fault } from "@cocoon/core";
import { tryParseQuantity } from "@cocoon/core/quantity";
import type { Pod } from "@cocoon/kubelet";

export interface Machine {
  readonly vm: VmSpec;
  /** Empty: nobody decided; what the registry holds decides. */
  readonly mode: "clone" | "run" | "static" | "";
  readonly cloneFromDir: string;
  readonly sleep: boolean;
  readonly restoreMarked: boolean;
  readonly keepSnapshot: boolean;
  readonly snapshotOnDelete: boolean;
  readonly generation: number;
  readonly lifecycle: LifecycleStatus;
  readonly vmId: string;
  readonly ip: string;
  /** Digest of the snapshot the machine sleeps in, as recorded on the pod. */
  readonly recordedDigest: string;
  readonly probePort: number | undefined;
}

/** Throws `invalid` when the pod is no machine or contradicts itself. */
export function readMachine(pod: Pod): Machine {
  const annotations: Annotations = pod.metadata.annotations;
  const vm = readVmSpec(annotations);
  const { namespace, name } = pod.metadata;
  if (vm.vmName === "")
    throw new Fault("invalid", `pod ${namespace}/${name} missing ${annotation.vmName} annotation`);
  const runtime = readVmRuntime(annotations);
  return {
    vm,
    mode: readMode(vm.mode),
    cloneFromDir: readText(annotations, annotation.cloneFromDir),
    sleep: readHibernate(annotations),
    restoreMarked: readRestoreFromHibernate(annotations),
    keepSnapshot: readKeepSnapshotOnDelete(annotations),
    snapshotOnDelete: shouldSnapshot(vm.snapshotPolicy, roleOfPod({ metadata: pod.metadata })),
    generation: readGeneration(annotations),
    lifecycle: readLifecycle(annotations),
    vmId: runtime.vmId,
    ip: runtime.ip,
    recordedDigest: readText(annotations, annotation.snapshotDigest),
    probePort: readPort(vm.probePort),
  };
}

function readMode(text: string): Machine["mode"] {
  const mode = text.toLowerCase();
  if (mode === "" || mode === "clone" || mode === "run" || mode === "static") return mode;
  throw new Fault("invalid", `${annotation.mode}: "${text.slice(0, 40)}" is none of clone, run, static`);
}

function readPort(text: string): number | undefined {
  if (text === "") return undefined;
  const port = Number(text);
  if (!/^\d{1,5}$/.test(text) || port < 1 || port > 65_535)
    throw new Fault("invalid", `${annotation.probePort}: "${text.slice(0, 40)}" is not a port`);
  return port;
}

export interface MachineSize {
  readonly cpus?: number;
  readonly memoryBytes?: number;
  readonly storageBytes?: number;
}

/**
 * From the first container: requests where they are not zero, else limits; CPUs rounded up to whole ones. A machine that
 * runs on what others leave over (batch, mid) asks for it under other names, and is as large as it asks.
 */
export function sizeOf(pod: Pod, storage: string): MachineSize {
  const { requests = {}, limits = {} } = pod.spec.containers[0]?.resources ?? {};
  const cpu = cpuNanos(requests) || cpuNanos(limits);
  const memory = memoryNanos(requests) || memoryNanos(limits);
  const disk = nanosOf(storage === "" ? undefined : storage);
  return {
    ...(cpu ? { cpus: Number((cpu + nano - 1n) / nano) } : {}),
    ...(memory ? { memoryBytes: Number(memory / nano) } : {}),
    ...(disk ? { storageBytes: Number(disk / nano) } : {}),
  };
}

const nano = 1_000_000_000n;
/** Extended resources are whole numbers: their CPU is counted in thousandths. */
const milliCpus = ["kubernetes.io/batch-cpu", "kubernetes.io/mid-cpu"] as const;
const otherMemory = ["kubernetes.io/batch-memory", "kubernetes.io/mid-memory"] as const;

type Amounts = Readonly<Record<string, string>>;

function cpuNanos(amounts: Amounts): bigint {
  return nanosOf(amounts["cpu"]) || firstOf(amounts, milliCpus) / 1_000n;
}

function memoryNanos(amounts: Amounts): bigint {
  return nanosOf(amounts["memory"]) || firstOf(amounts, otherMemory);
}

function firstOf(amounts: Amounts, names: readonly string[]): bigint {
  for (const name of names) {
    const found = nanosOf(amounts[name]);
    if (found) return found;
  }
  return 0n;
}

function nanosOf(text: string | undefined): bigint {
  return text === undefined ? 0n : (tryParseQuantity(text)?.nanos ?? 0n);
}

/** Share of the CPU against other machines, and a ceiling where the pod has a limit. */
export function cpuPolicyOf(pod: Pod): {
  readonly weight?: number;
  readonly quotaMicros?: number;
  readonly periodMicros?: number;
} {
  const { requests = {}, limits = {} } = pod.spec.containers[0]?.resources ?? {};
  // What runs on left-overs has no share of its own: it gives way to everybody who asked for CPU.
  const requested = Number(nanosOf(requests["cpu"]) / 1_000_000n);
  const limit = Number(cpuNanos(limits) / 1_000_000n);
  const isLeftover = requested === 0 && cpuNanos(requests) > 0n;
  const shares = Math.max(2, Math.floor((requested * 1024) / 1000));
  const weight = 1 + Math.floor(((shares - 2) * 9999) / 262_142);
  return {
    ...(requested > 0 || isLeftover ? { weight } : {}),
    ...(limit > 0 ? { quotaMicros: Math.max(limit * 100, 1000), periodMicros: 100_000 } : {}),
  };
}
