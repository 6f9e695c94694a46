/** What the benchmark and its kubelet say to each other. */
export type WorkerRequest =
  | { readonly kind: "calls" | "usage" | "ready" }
  | { readonly kind: "restart"; readonly vmName: string; readonly pod: string };

export interface WorkerReply {
  readonly ready?: boolean;
  readonly calls?: Readonly<Record<string, number>>;
  readonly rssBytes?: number;
  readonly cpuMicros?: number;
  readonly tookMs?: number;
  /** Pods whose status the API server has as Ready. */
  readonly readyPods?: number;
  /** From the first write of a pod's status until the last one. */
  readonly writingMs?: number;
}
