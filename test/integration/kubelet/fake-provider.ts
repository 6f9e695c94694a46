/** A provider whose pods exist in memory only, run at once, and can be made to fail. */
import { keyText, type ObjectKey } from "@cocoon/kube";
import type { DisappearanceOptions, Pod, PodProvider, PodStatus, ReportPod } from "@cocoon/kubelet";

export class FakeProvider implements PodProvider {
  readonly pods = new Map<string, Pod>();
  readonly calls: string[] = [];
  /** Pods as they were when they were last seen. */
  readonly disappeared: Pod[] = [];
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
    this.pods.set(keyText(getKey(pod)), pod);
    void this.#report(getKey(pod), pod.metadata.uid ?? "", { status: runningStatus(pod) });
  }

  updatePod(pod: Pod): Promise<void> {
    this.calls.push(`update ${pod.metadata.name}`);
    this.pods.set(keyText(getKey(pod)), pod);
    return Promise.resolve();
  }

  deletePod(pod: Pod): Promise<void> {
    this.calls.push(`delete ${pod.metadata.name}`);
    if (this.failDelete) return Promise.reject(this.failDelete);
    this.pods.delete(keyText(getKey(pod)));
    return Promise.resolve();
  }

  podDisappeared(pod: Pod, { cause }: DisappearanceOptions): Promise<void> {
    this.calls.push(`disappeared ${pod.metadata.name}: ${cause}`);
    this.disappeared.push(pod);
    this.pods.delete(keyText(getKey(pod)));
    return Promise.resolve();
  }

  getPod(key: ObjectKey): Promise<Pod | undefined> {
    return Promise.resolve(this.pods.get(keyText(key)));
  }

  getPods(): Promise<readonly Pod[]> {
    return Promise.resolve([...this.pods.values()]);
  }
}

function getKey(pod: Pod): ObjectKey {
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
