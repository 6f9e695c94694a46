/** CPUs, memory and disk of a machine, from the resources of its pod. */
import { tryParseQuantity } from "@cocoon/core/quantity";
import type { Pod } from "@cocoon/kubelet";
import type { RuntimeDescription } from "@cocoon/vm";
import { readPodMachine } from "./pod-machine.ts";

export interface MachineSize {
  readonly cpus?: number;
  readonly memoryBytes?: number;
  readonly storageBytes?: number;
}

/**
 * From the first container: requests where they are not zero, else limits; CPUs rounded up to whole ones. A machine on
 * reclaimed resources (batch, mid) requests them under other names.
 */
export function readMachineSize(pod: Pod, storage: string): MachineSize {
  const { requests = {}, limits = {} } = pod.spec.containers[0]?.resources ?? {};
  const cpu = readCpuNanos(requests) || readCpuNanos(limits);
  const memory = readMemoryNanos(requests) || readMemoryNanos(limits);
  const disk = parseNanos(storage === "" ? undefined : storage);
  return {
    ...(cpu ? { cpus: Number((cpu + nano - 1n) / nano) } : {}),
    ...(memory ? { memoryBytes: Number(memory / nano) } : {}),
    ...(disk ? { storageBytes: Number(disk / nano) } : {}),
  };
}

type Limits = Pick<RuntimeDescription, "minimumMemoryBytes" | "minimumStorageBytes">;

/** As the pod asks, and not less than the engine accepts. */
export function readWantedSize(pod: Pod, least: Limits): MachineSize {
  const { memoryBytes, storageBytes, ...rest } = readMachineSize(pod, readPodMachine(pod).vm.storage);
  const { minimumMemoryBytes, minimumStorageBytes } = least;
  return {
    ...rest,
    ...(memoryBytes === undefined ? {} : { memoryBytes: Math.max(memoryBytes, minimumMemoryBytes) }),
    ...(storageBytes === undefined ? {} : { storageBytes: Math.max(storageBytes, minimumStorageBytes) }),
  };
}

/** What a clone is to have more of than its snapshot, of the sizes that the engine can change. */
export function computeGrowth(
  wanted: MachineSize,
  has: Required<MachineSize>,
  sizes: readonly (keyof MachineSize)[],
): MachineSize {
  return Object.fromEntries(
    sizes.flatMap((size) => {
      const asked = wanted[size] ?? 0;
      return asked > has[size] ? [[size, asked] as const] : [];
    }),
  );
}

const sizeNames = { cpus: "CPUs", memoryBytes: "bytes of memory", storageBytes: "bytes of disk" } as const;

/** Where the VM is not as large as asked: one that continues from a snapshot keeps what it was saved with. */
export function compareSize(wanted: MachineSize, has: Required<MachineSize>): string | undefined {
  const differences = (["cpus", "memoryBytes", "storageBytes"] as const).flatMap((size) => {
    const asked = wanted[size];
    // A disk that is larger serves as well.
    if (asked === undefined || (size === "storageBytes" ? asked <= has[size] : asked === has[size]))
      return [];
    return [`${has[size]} ${sizeNames[size]} instead of ${asked}`];
  });
  if (differences.length === 0) return undefined;
  return `the machine continues from a snapshot and has its size: ${differences.join(", ")}`;
}

const nano = 1_000_000_000n;
/** Extended resources are whole numbers: their CPU is counted in thousandths. */
const milliCpus = ["kubernetes.io/batch-cpu", "kubernetes.io/mid-cpu"] as const;
const otherMemory = ["kubernetes.io/batch-memory", "kubernetes.io/mid-memory"] as const;

type Amounts = Readonly<Record<string, string>>;

function readCpuNanos(amounts: Amounts): bigint {
  return parseNanos(amounts["cpu"]) || findFirst(amounts, milliCpus) / 1_000n;
}

function readMemoryNanos(amounts: Amounts): bigint {
  return parseNanos(amounts["memory"]) || findFirst(amounts, otherMemory);
}

function findFirst(amounts: Amounts, names: readonly string[]): bigint {
  for (const name of names) {
    const found = parseNanos(amounts[name]);
    if (found) return found;
  }
  return 0n;
}

function parseNanos(text: string | undefined): bigint {
  return text === undefined ? 0n : (tryParseQuantity(text)?.nanos ?? 0n);
}

/** Share of the CPU against other machines, and a ceiling where the pod has a limit. */
export function readCpuPolicy(pod: Pod): {
  readonly weight?: number;
  readonly quotaMicros?: number;
  readonly periodMicros?: number;
} {
  const { requests = {}, limits = {} } = pod.spec.containers[0]?.resources ?? {};
  // Reclaimed CPU has no share of its own: it gives way to every machine that requested CPU.
  const requested = Number(parseNanos(requests["cpu"]) / 1_000_000n);
  const limit = Number(readCpuNanos(limits) / 1_000_000n);
  const isReclaimed = requested === 0 && readCpuNanos(requests) > 0n;
  const shares = Math.max(2, Math.floor((requested * 1024) / 1000));
  const weight = 1 + Math.floor(((shares - 2) * 9999) / 262_142);
  return {
    ...(requested > 0 || isReclaimed ? { weight } : {}),
    ...(limit > 0 ? { quotaMicros: Math.max(limit * 100, 1000), periodMicros: 100_000 } : {}),
  };
}
