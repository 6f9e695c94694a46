/**
 * Kubelets and their machines, one small step at a time, so that anything can happen between two of them. Follows the
 * annotation contract and notes whatever must never happen.
 */
import { annotation, hibernateTag, latestTag } from "@cocoon/contract";
import { pods, type KubeClient, type Pod } from "@cocoon/kube";
import type { FakeSnapshots } from "./fake-snapshots.ts";

interface Vm {
  readonly id: string;
  readonly node: string;
  counter: number;
}

export const podFinalizer = "simulation/kubelet";
type Texts = Readonly<Record<string, string | null>>;

export class FakeKubelet {
  readonly vms = new Map<string, Vm>();
  readonly violations: string[] = [];
  /** Machines that fail, awake or falling asleep. */
  readonly failing = new Set<string>();
  readonly #known = new Map<string, number>();
  readonly #client: KubeClient;
  readonly #registry: FakeSnapshots;
  readonly #signal = new AbortController().signal;
  readonly #leavesTags: boolean;
  #ids = 0;

  constructor(client: KubeClient, registry: FakeSnapshots, leavesTags: boolean) {
    this.#client = client;
    this.#registry = registry;
    this.#leavesTags = leavesTags;
  }

  /** Whether the life of this machine goes on: it was seen, and its end was not requested. */
  isMissed(vmName: string): boolean {
    return this.#known.has(vmName);
  }

  /** One step for one pod; false when there is nothing to do for it. */
  async step(pod: Pod): Promise<boolean> {
    const { annotations = {}, deletionTimestamp } = pod.metadata;
    const vmName = annotations[annotation.vmName] ?? "";
    if (!pod.spec?.nodeName) return false;
    if (deletionTimestamp) return this.#end(pod, vmName);
    if (this.failing.has(vmName))
      return this.#publish(pod, {
        [annotation.lifecycleState]: "failed",
        [annotation.lifecycleStateMessage]: "broken",
      });
    return annotations[annotation.hibernate] === "true" ? this.#sleep(pod, vmName) : this.#wake(pod, vmName);
  }

  async #sleep(pod: Pod, vmName: string): Promise<boolean> {
    const { annotations = {} } = pod.metadata;
    const vm = this.vms.get(vmName);
    const copy = this.#registry.tags(vmName).get(hibernateTag);
    if (vm) {
      const announced = await this.#publish(pod, { [annotation.lifecycleState]: "hibernating" });
      if (announced) return true;
      if (copy?.counter !== vm.counter) {
        this.#registry.push(vmName, hibernateTag, vm.counter);
        return true;
      }
      if (await this.#recordDigest(pod, copy.digest)) return true;
      if (await this.#publish(pod, { [annotation.vmId]: null, [annotation.ip]: null })) return true;
      this.vms.delete(vmName);
      return true;
    }
    if (!copy) {
      if (annotations[annotation.lifecycleState] !== "hibernated") return this.#bringUp(pod, vmName);
      this.violations.push(`${vmName} sleeps, and its copy is gone`);
      return false;
    }
    if (await this.#recordDigest(pod, copy.digest)) return true;
    await this.#report(pod, false);
    return this.#publish(pod, {
      [annotation.lifecycleState]: "hibernated",
      [annotation.lifecycleStateMessage]: null,
    });
  }

  async #recordDigest(pod: Pod, digest: string): Promise<boolean> {
    return this.#leavesTags ? false : this.#publish(pod, { [annotation.snapshotDigest]: digest });
  }

  /** Written before the VM runs, as the proof of where it comes from; older kubelets do not write it. */
  async #recordRestored(pod: Pod, digest: string): Promise<boolean> {
    return this.#leavesTags ? false : this.#publish(pod, { [annotation.restoredDigest]: digest });
  }

  async #wake(pod: Pod, vmName: string): Promise<boolean> {
    const vm = this.vms.get(vmName);
    const { annotations = {} } = pod.metadata;
    if (!vm) return this.#bringUp(pod, vmName);
    if (vm.node !== pod.spec?.nodeName)
      this.violations.push(`${vmName} on ${vm.node} and ${pod.spec?.nodeName}`);
    if (annotations[annotation.lifecycleState] !== "ready") {
      vm.counter += 1;
      this.#known.set(vmName, vm.counter);
    }
    if (await this.#report(pod, true)) return true;
    const shown = {
      [annotation.vmId]: vm.id,
      [annotation.ip]: "10.0.0.1",
      [annotation.lifecycleState]: "ready",
    };
    if (await this.#publish(pod, { ...shown, [annotation.lifecycleStateMessage]: null })) return true;
    const recorded = annotations[annotation.snapshotDigest];
    if (recorded === undefined || this.#leavesTags) return false;
    const tags = this.#registry.tags(vmName);
    if (tags.get(hibernateTag)?.digest === recorded) tags.delete(hibernateTag);
    return this.#publish(pod, { [annotation.snapshotDigest]: null });
  }

  async #bringUp(pod: Pod, vmName: string): Promise<boolean> {
    const { annotations = {} } = pod.metadata;
    const node = pod.spec?.nodeName ?? "";
    const copy = this.#registry.tags(vmName).get(hibernateTag);
    if (copy) {
      const known = this.#known.get(vmName) ?? 0;
      if (copy.counter < known)
        this.violations.push(`${vmName} is set back from ${known} to ${copy.counter}`);
      if (await this.#recordDigest(pod, copy.digest)) return true;
      if (await this.#recordRestored(pod, copy.digest)) return true;
      return this.#make(vmName, node, copy.counter);
    }
    if (annotations[annotation.vmId]) return this.#fail(pod);
    const marked = annotations[annotation.restoreFromHibernate] === "true";
    if (
      marked ||
      annotations[annotation.snapshotDigest] ||
      annotations[annotation.lifecycleState] === "hibernated"
    ) {
      this.violations.push(`${vmName} slept, and its copy is gone`);
      return false;
    }
    const released = [...this.#registry.tags(vmName).keys()].some((tag) => tag.startsWith("released-"));
    if (this.#known.has(vmName) && !released)
      this.violations.push(`${vmName} starts empty although it was at ${this.#known.get(vmName)}`);
    this.#known.delete(vmName);
    const source = annotations[annotation.forkFrom];
    const main = source === undefined ? undefined : this.vms.get(source);
    if (source !== undefined && main?.node !== node) return false; // a fork is made beside its source
    return this.#make(vmName, node, main?.counter ?? 0);
  }

  #make(vmName: string, node: string, counter: number): true {
    if (this.vms.has(vmName)) this.violations.push(`${vmName} runs twice`);
    this.vms.set(vmName, { id: `vm-${(this.#ids += 1)}`, node, counter });
    return true;
  }

  /** The pod goes: what is to sleep sleeps, the rest leaves `latest` where the policy wants it. */
  async #end(pod: Pod, vmName: string): Promise<boolean> {
    const { annotations = {}, finalizers = [] } = pod.metadata;
    if (!finalizers.includes(podFinalizer)) return false;
    const vm = this.vms.get(vmName);
    const keep = annotations[annotation.hibernate] === "true" || isDisrupted(pod);
    const tags = this.#registry.tags(vmName);
    if (vm && keep && tags.get(hibernateTag)?.counter !== vm.counter) {
      this.#registry.push(vmName, hibernateTag, vm.counter);
      return true;
    }
    if (vm && !keep) {
      if (annotations[annotation.snapshotPolicy] !== "never")
        this.#registry.push(vmName, latestTag, vm.counter);
      const restored = annotations[annotation.restoredDigest];
      if (tags.get(hibernateTag)?.digest === restored) tags.delete(hibernateTag);
      this.#known.delete(vmName);
    }
    this.vms.delete(vmName);
    await this.#patch(pod, { metadata: { finalizers: null } });
    return true;
  }

  async #fail(pod: Pod): Promise<boolean> {
    if (pod.status?.phase === "Failed") return false;
    await this.#patch(pod, { status: { ...pod.status, phase: "Failed" } });
    return true;
  }

  async #report(pod: Pod, live: boolean): Promise<boolean> {
    const ready = live ? "True" : "False";
    if (pod.status?.conditions?.find(({ type }) => type === "Ready")?.status === ready) return false;
    const lastTransitionTime = new Date().toISOString();
    const conditions = [
      ...(pod.status?.conditions ?? []).filter(({ type }) => type !== "Ready"),
      { type: "Ready", status: ready, lastTransitionTime },
    ];
    const state = live ? { running: {} } : { waiting: { reason: "Hibernated" } };
    await this.#patch(pod, {
      status: { phase: "Running", conditions, containerStatuses: [{ name: "agent", state }] },
    });
    return true;
  }

  async #publish(pod: Pod, wanted: Texts): Promise<boolean> {
    const { annotations = {} } = pod.metadata;
    const generation = annotations[annotation.generation] ?? "0";
    const changes = Object.entries({
      ...wanted,
      [annotation.lifecycleObservedGeneration]: generation,
    }).filter(([key, value]) => (annotations[key] ?? null) !== value);
    if (changes.length === 0) return false;
    await this.#patch(pod, { metadata: { annotations: Object.fromEntries(changes) } });
    return true;
  }

  async #patch(pod: Pod, body: object): Promise<void> {
    const { namespace, name = "" } = pod.metadata;
    await this.#client.patch(
      pods,
      { key: { namespace, name }, patch: { type: "merge", body } },
      { signal: this.#signal },
    );
  }
}

export function isDisrupted({ status }: Pod): boolean {
  return (
    status?.conditions?.some((each) => each.type === "DisruptionTarget" && each.status === "True") ?? false
  );
}
