/** The kubelet's stats summary, as `/stats/summary` gives it; every number is optional where it is not measured. */
export interface StatsSummary {
  readonly node: NodeStats;
  readonly pods: readonly PodStats[];
}

interface CpuStats {
  readonly time: string;
  readonly usageNanoCores?: number;
  readonly usageCoreNanoSeconds?: number;
}

interface MemoryStats {
  readonly time: string;
  readonly availableBytes?: number;
  readonly usageBytes?: number;
  readonly workingSetBytes?: number;
  readonly rssBytes?: number;
}

interface NetworkStats {
  readonly time: string;
  readonly name?: string;
  readonly rxBytes?: number;
  readonly txBytes?: number;
}

interface FsStats {
  readonly time: string;
  readonly availableBytes?: number;
  readonly capacityBytes?: number;
  readonly usedBytes?: number;
}

interface Usage {
  readonly startTime: string;
  readonly cpu?: CpuStats;
  readonly memory?: MemoryStats;
}

interface NodeStats extends Usage {
  readonly nodeName: string;
  readonly network?: NetworkStats;
  readonly fs?: FsStats;
}

interface ContainerStats extends Usage {
  readonly name: string;
  readonly rootfs?: FsStats;
}

export interface PodStats extends Usage {
  readonly podRef: { readonly name: string; readonly namespace: string; readonly uid: string };
  readonly containers: readonly ContainerStats[];
  readonly network?: NetworkStats;
  readonly "ephemeral-storage"?: FsStats;
}
