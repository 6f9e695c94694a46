/** A provider whose pods exist in memory only, run at once, and can be told to fail. */
import { keyText, type ObjectKey } from "@cocoon/kube";
import type { Pod, PodProvider, PodStatus, ReportPod } from "@cocoon/kubelet";

export class MemoryProvider implements PodProvider {
  readonly pods = new Map<string, Pod>();
  readonly calls: string[] = [];
  failCreate: Error | undefined;
  failDelete: Error | undefined;
  /** Creating waits for it. */
  holdCreate: Promise<void> | undefined;
  #report: ReportPod = () => Promise.resolve();

  onPodStatus(report: ReportPod): void {
    this.#report = report;
  }

  async createPod(pod: Pod): Promise<void> {
    this.calls.push(`create ${pod.metadata.name}`);
    await this.holdCreate;
    if (this.failCreate) throw this.failCreate;
    this.pods.set(keyText(keyOf(pod)), pod);
    void this.#report(keyOf(pod), pod.metadata.uid ?? "", { status: runningStatus(pod) });
  }

  updatePod(pod: Pod): Promise<void> {
    this.calls.push(`update ${pod.metadata.name}`);
    this.pods.set(keyText(keyOf(pod)), pod);
    return Promise.resolve();
  }

  deletePod(pod: Pod): Promise<void> {
    this.calls.push(`delete ${pod.metadata.name}`);
    if (this.failDelete) return Promise.reject(this.failDelete);
    this.pods.delete(keyText(keyOf(pod)));
    return Promise.resolve();
  }

  getPod(key: ObjectKey): Promise<Pod | undefined> {
    return Promise.resolve(this.pods.get(keyText(key)));
  }

  getPods(): Promise<readonly Pod[]> {
    return Promise.resolve([...this.pods.values()]);
  }
}

function keyOf(pod: Pod): ObjectKey {
  return { namespace: pod.metadata.namespace, name: pod.metadata.name ?? "" };
}

function runningStatus(pod: Pod): PodStatus {
  const startedAt = new Date().toISOString().replace(/\.\d+Z$/, "Z");
  return {
    phase: "Running",
    podIP: "10.244.0.7",
    podIPs: [{ ip: "10.244.0.7" }],
    conditions: ["Initialized", "Ready", "ContainersReady"].map((type) => ({
      type,
      status: "True" as const,
    })),
    containerStatuses: pod.spec.containers.map((container) => ({
      name: container.name,
      image: container.image ?? "",
      imageID: "none",
      ready: true,
      started: true,
      restartCount: 0,
      state: { running: { startedAt } },
    })),
  };
}
