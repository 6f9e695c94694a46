/**
 * A kubelet that acts out the annotation contract without machines: a "machine" is a counter that grows with every
 * look, its snapshot a manifest that carries the counter. It notes whatever must never happen: a machine that starts
 * empty although a copy of it sleeps, or that comes back older than it was.
 */
import { annotation, hibernateTag, latestTag, nodeLabel } from "@cocoon/contract";
import { isFault, getErrorMessage, silentLogger, sleep } from "@cocoon/core";
import { openCaches, pods, type KubeConnection, type Pod } from "@cocoon/kube";
import { deleteByDigest, type Registry, type Repository } from "@cocoon/oci";
import { findCopy, pushCopy } from "./fake-snapshots.ts";
import { startFakeNodes } from "./fake-nodes.ts";

export interface FakeOptions {
  readonly connection: KubeConnection;
  readonly registry: Registry;
  readonly namespace?: string;
  readonly pool: string;
  readonly nodeNames: readonly string[];
  /** Give pods their nodes too, where no scheduler runs. */
  readonly bindsPods?: boolean;
  /** Leave the copy after a wake to the operator, as the Go kubelet does. */
  readonly leavesTags?: boolean;
  /** Boot the image instead of restoring, as kubelets do that do not know `restore-from-hibernate`. */
  readonly bootsFresh?: boolean;
}

interface Vm {
  readonly id: string;
  readonly node: string;
  counter: number;
}

export class FakeKubelet implements AsyncDisposable {
  readonly vms = new Map<string, Vm>();
  /** What must never happen. */
  readonly violations: string[] = [];
  /** Machines that fail instead of becoming ready. */
  readonly failing = new Set<string>();
  /** The kubelet writes nothing while this is set. */
  silent = false;
  readonly #options: FakeOptions;
  readonly #abort = new AbortController();
  readonly #stack = new AsyncDisposableStack();
  readonly #working = new Map<string, Promise<void>>();
  readonly #again = new Set<string>();
  /** The highest counter that was published, by machine, while its life goes on. */
  readonly #known = new Map<string, number>();
  #ids = 0;
  #lookUp: (key: string) => Pod | undefined = () => undefined;
  #all: () => Iterable<Pod> = () => [];

  constructor(options: FakeOptions) {
    this.#options = options;
  }

  async start(): Promise<this> {
    const { connection, nodeNames, namespace, pool, bindsPods } = this.#options;
    this.#stack.use(
      await startFakeNodes({ connection, pool, nodeNames, withoutControllers: Boolean(bindsPods) }),
    );
    const caches = this.#stack.use(openCaches({ client: connection, log: silentLogger }));
    const cache = caches.open(pods, namespace ? { namespace } : {});
    this.#lookUp = (key) => cache.get(splitKey(key));
    this.#all = () => cache.list();
    this.#stack.use(
      cache.subscribe((change) => {
        if (change.kind !== "deleted") this.#look(change.object);
      }),
    );
    await cache.synced({ signal: this.#signal });
    return this;
  }

  get #signal(): AbortSignal {
    return this.#abort.signal;
  }

  /** After silence: everything is looked at again. */
  speak(): void {
    this.silent = false;
    for (const pod of this.#all()) this.#look(pod);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#abort.abort();
    await Promise.allSettled(this.#working.values());
    await this.#stack.disposeAsync();
  }

  #look(pod: Pod): void {
    const key = `${pod.metadata.namespace}/${pod.metadata.name}`;
    if (this.silent || this.#signal.aborted || !this.#isMine(pod)) return;
    if (this.#working.has(key)) return void this.#again.add(key);
    const work = this.#settle(key).finally(() => {
      this.#working.delete(key);
      const next = this.#lookUp(key);
      if (this.#again.delete(key) && next) this.#look(next);
    });
    this.#working.set(key, work);
  }

  /** Nothing of the pod changes when what it waits for is there. */
  #requeueAfter({ metadata: { namespace, name } }: Pod): void {
    const timer = setTimeout(() => {
      const pod = this.#lookUp(`${namespace}/${name}`);
      if (pod) this.#look(pod);
    }, 250);
    this.#stack.defer(() => clearTimeout(timer));
  }

  #isMine({ spec, metadata }: Pod): boolean {
    if (metadata.annotations?.[annotation.vmName] === undefined) return false;
    const node = spec?.nodeName ?? "";
    if (node !== "") return this.#options.nodeNames.includes(node);
    return Boolean(this.#options.bindsPods) && spec?.nodeSelector?.[nodeLabel.pool] === this.#options.pool;
  }

  async #settle(key: string): Promise<void> {
    for (let attempt = 0; attempt < 50 && !this.#signal.aborted && !this.silent; attempt += 1) {
      try {
        const pod = this.#lookUp(key);
        if (pod) await this.#step(pod);
        return;
      } catch (error) {
        if (this.#signal.aborted || isFault(error, "notFound") || isFault(error, "conflict")) return;
        if (!isFault(error)) this.violations.push(`fake kubelet: ${getErrorMessage(error)}`);
        await sleep(100, { signal: this.#signal });
      }
    }
  }

  async #step(pod: Pod): Promise<void> {
    const { annotations = {} } = pod.metadata;
    if (!pod.spec?.nodeName) return this.#bind(pod);
    const vmName = annotations[annotation.vmName] ?? "";
    if (annotations[annotation.managed] !== "true") return this.#showStatic(pod);
    if (pod.metadata.deletionTimestamp) return this.#end(pod, vmName);
    if (annotations[annotation.hibernate] === "true" || annotations["cocoon.cis/hibernate"] === "true")
      return this.#sleep(pod, vmName);
    await this.#wake(pod, vmName);
  }

  async #bind(pod: Pod): Promise<void> {
    const { connection, nodeNames } = this.#options;
    const { namespace = "", name = "" } = pod.metadata;
    const terms = JSON.stringify(pod.spec?.affinity ?? {});
    const node = nodeNames.find((each) => terms.includes(`"${each}"`)) ?? nodeNames[0];
    if (terms.includes("required") && !nodeNames.some((each) => terms.includes(`"${each}"`))) return;
    await connection.raw({
      method: "POST",
      path: `/api/v1/namespaces/${namespace}/pods/${name}/binding`,
      body: { apiVersion: "v1", kind: "Binding", metadata: { name }, target: { kind: "Node", name: node } },
      signal: this.#signal,
    });
  }

  async #showStatic(pod: Pod): Promise<void> {
    if (pod.metadata.deletionTimestamp) return this.#release(pod);
    const { annotations = {} } = pod.metadata;
    const known = annotations[annotation.vmId] && annotations[annotation.ip];
    if (!known) {
      const message = "unmanaged vm missing pre-assigned IP/VMID";
      return this.#publish(pod, {
        [annotation.lifecycleState]: "failed",
        [annotation.lifecycleStateMessage]: message,
      });
    }
    await this.#report(pod, "live");
    await this.#publish(pod, {
      [annotation.lifecycleState]: "ready",
      [annotation.lifecycleStateMessage]: null,
    });
  }

  async #wake(pod: Pod, vmName: string): Promise<void> {
    const { annotations = {} } = pod.metadata;
    const there = this.vms.get(vmName);
    if (!there && annotations[annotation.vmId]) return this.#reportGone(pod);
    if (this.failing.has(vmName)) {
      const failure = {
        [annotation.lifecycleState]: "failed",
        [annotation.lifecycleStateMessage]: "told to fail",
      };
      return this.#publish(pod, failure);
    }
    const vm = there ?? (await this.#bringUp(pod, vmName));
    if (!vm) return;
    if (vm.node !== pod.spec?.nodeName)
      this.violations.push(`${vmName} runs on ${vm.node}, and is to run on ${pod.spec?.nodeName} too`);
    vm.counter += 1;
    this.#known.set(vmName, vm.counter);
    await this.#report(pod, "live");
    await this.#publish(pod, {
      [annotation.vmId]: vm.id,
      [annotation.ip]: "10.0.0.1",
      [annotation.lifecycleState]: "ready",
      [annotation.lifecycleStateMessage]: null,
    });
    if (this.#options.leavesTags || annotations[annotation.snapshotDigest] === undefined) return;
    await deleteByDigest(this.#repository(vmName), annotations[annotation.snapshotDigest] ?? "", {
      signal: this.#signal,
    });
    await this.#publish(pod, { [annotation.snapshotDigest]: null });
  }

  /** Restores what sleeps, forks, or starts empty; says when that must not be. */
  async #bringUp(pod: Pod, vmName: string): Promise<Vm | undefined> {
    const { annotations = {} } = pod.metadata;
    const node = pod.spec?.nodeName ?? "";
    if (this.#options.bootsFresh) return this.#make(vmName, node, 0);
    const copy = await findCopy(this.#repository(vmName), hibernateTag, this.#signal);
    if (copy) {
      if (copy.counter < (this.#known.get(vmName) ?? 0))
        this.violations.push(`${vmName} came back at ${copy.counter}, but was at ${this.#known.get(vmName)}`);
      if (!this.#options.leavesTags)
        await this.#publish(pod, {
          [annotation.snapshotDigest]: copy.digest,
          [annotation.restoredDigest]: copy.digest,
        });
      return this.#make(vmName, node, copy.counter);
    }
    if (annotations[annotation.snapshotDigest] || annotations[annotation.lifecycleState] === "hibernated") {
      this.violations.push(`${vmName} slept, and its copy is gone`);
      return undefined;
    }
    if (annotations[annotation.restoreFromHibernate] === "true" && !annotations[annotation.vmId]) {
      this.violations.push(`${vmName} is to be restored, but no copy is there`);
      return undefined;
    }
    if (this.#known.has(vmName) && !(await this.#wasReleased(vmName)))
      this.violations.push(`${vmName} starts empty although it was at ${this.#known.get(vmName)}`);
    const source = annotations[annotation.forkFrom];
    if (source === undefined) return this.#make(vmName, node, 0);
    const main = this.vms.get(source);
    if (!main) {
      const message = `fork source ${source} does not run here`;
      await this.#publish(pod, {
        [annotation.lifecycleState]: "creating",
        [annotation.lifecycleStateMessage]: message,
      });
      this.#requeueAfter(pod);
      return undefined;
    }
    if (main.node !== node)
      this.violations.push(`${vmName} on ${node} is to be forked from ${source} on ${main.node}`);
    return this.#make(vmName, node, main.counter);
  }

  /** Given up asleep: its copy has another name, and a new machine of its name starts a life of its own. */
  async #wasReleased(vmName: string): Promise<boolean> {
    const tags = await Array.fromAsync(this.#repository(vmName).tags({ signal: this.#signal }));
    const released = tags.some((tag) => tag.startsWith("released-"));
    if (released) this.#known.delete(vmName);
    return released;
  }

  #make(vmName: string, node: string, counter: number): Vm {
    const vm = { id: `vm-${(this.#ids += 1)}`, node, counter };
    this.vms.set(vmName, vm);
    return vm;
  }

  async #sleep(pod: Pod, vmName: string): Promise<void> {
    const { annotations = {} } = pod.metadata;
    if (this.failing.has(vmName)) {
      const failure = {
        [annotation.lifecycleState]: "failed",
        [annotation.lifecycleStateMessage]: "told to fail",
      };
      return this.#publish(pod, failure);
    }
    let vm = this.vms.get(vmName);
    const copy = vm ? undefined : await findCopy(this.#repository(vmName), hibernateTag, this.#signal);
    if (!vm && !copy) {
      if (annotations[annotation.lifecycleState] === "hibernated")
        return void this.violations.push(`${vmName} sleeps, and its copy is gone`);
      vm = await this.#bringUp(pod, vmName);
      if (!vm) return;
    }
    const digest = vm
      ? await pushCopy(this.#repository(vmName), {
          tag: hibernateTag,
          counter: vm.counter,
          signal: this.#signal,
        })
      : (copy?.digest ?? "");
    this.vms.delete(vmName);
    await this.#report(pod, "asleep");
    await this.#publish(pod, {
      [annotation.vmId]: null,
      [annotation.ip]: null,
      ...(this.#options.leavesTags ? {} : { [annotation.snapshotDigest]: digest }),
      [annotation.lifecycleState]: "hibernated",
      [annotation.lifecycleStateMessage]: null,
    });
  }

  async #end(pod: Pod, vmName: string): Promise<void> {
    const { annotations = {} } = pod.metadata;
    const vm = this.vms.get(vmName);
    const disrupted = pod.status?.conditions?.some(
      ({ type, status }) => type === "DisruptionTarget" && status === "True",
    );
    if (vm && (annotations[annotation.hibernate] === "true" || disrupted))
      await pushCopy(this.#repository(vmName), {
        tag: hibernateTag,
        counter: vm.counter,
        signal: this.#signal,
      });
    else if (vm) {
      const policy = annotations[annotation.snapshotPolicy] ?? "always";
      const wanted = policy === "always" || (policy === "main-only" && vmName.endsWith("-0"));
      if (wanted)
        await pushCopy(this.#repository(vmName), {
          tag: latestTag,
          counter: vm.counter,
          signal: this.#signal,
        });
      const restored = annotations[annotation.restoredDigest];
      const stale = restored && (await findCopy(this.#repository(vmName), hibernateTag, this.#signal));
      if (stale && stale.digest === restored)
        await deleteByDigest(this.#repository(vmName), stale.digest, { signal: this.#signal });
      this.#known.delete(vmName); // its end was asked for
    }
    this.vms.delete(vmName);
    await this.#release(pod);
  }

  async #release(pod: Pod): Promise<void> {
    const { namespace, name = "", uid } = pod.metadata;
    await this.#options.connection.delete(
      pods,
      { namespace, name },
      { signal: this.#signal, gracePeriodSeconds: 0, ...(uid ? { preconditions: { uid } } : {}) },
    );
  }

  /** Leaves a copy under any tag and takes the machine away, as an older kubelet did. */
  async pushCopy(vmName: string, tag: string): Promise<void> {
    await pushCopy(this.#repository(vmName), {
      tag,
      counter: this.vms.get(vmName)?.counter ?? 0,
      signal: this.#signal,
    });
    this.vms.delete(vmName);
  }

  /** The life of a machine that was given up asleep is over for its name. */
  forget(vmName: string): void {
    this.#known.delete(vmName);
  }

  #repository(vmName: string): Repository {
    return this.#options.registry.repository(vmName);
  }

  async #reportGone(pod: Pod): Promise<void> {
    await this.#patchStatus(pod, { phase: "Failed", reason: "VMGone" });
  }

  async #report(pod: Pod, how: "live" | "asleep"): Promise<void> {
    const ready = how === "live" ? "True" : "False";
    const before = pod.status?.conditions?.find(({ type }) => type === "Ready");
    const container = pod.status?.containerStatuses?.[0]?.state;
    if (before?.status === ready && (container?.running !== undefined) === (how === "live")) return;
    const now = new Date().toISOString().replace(/\.\d+Z$/, "Z");
    const state = how === "live" ? { running: { startedAt: now } } : { waiting: { reason: "Hibernated" } };
    await this.#patchStatus(pod, {
      phase: "Running",
      conditions: [
        ...(pod.status?.conditions ?? []).filter(({ type }) => type !== "Ready"),
        { type: "Ready", status: ready, lastTransitionTime: now },
      ],
      containerStatuses: [
        { name: "agent", image: "x", imageID: "x", restartCount: 0, ready: how === "live", state },
      ],
    });
  }

  async #patchStatus(pod: Pod, status: object): Promise<void> {
    const { namespace, name = "", uid } = pod.metadata;
    const patch = { type: "merge", body: { metadata: { uid }, status } } as const;
    await this.#options.connection.patch(
      pods,
      { key: { namespace, name }, patch },
      { signal: this.#signal, subresource: "status" },
    );
  }

  /** All keys in one patch, with the newest generation that is known. */
  async #publish(pod: Pod, wanted: Readonly<Record<string, string | null>>): Promise<void> {
    const current = this.#lookUp(`${pod.metadata.namespace}/${pod.metadata.name}`) ?? pod;
    const { annotations = {} } = current.metadata;
    const generation = pod.metadata.annotations?.[annotation.generation] ?? "0";
    const all = { ...wanted, [annotation.lifecycleObservedGeneration]: generation };
    const changes = Object.entries(all).filter(([key, value]) => (annotations[key] ?? null) !== value);
    if (changes.length === 0) return;
    const { namespace, name = "", uid } = pod.metadata;
    const patch = {
      type: "merge",
      body: { metadata: { uid, annotations: Object.fromEntries(changes) } },
    } as const;
    await this.#options.connection.patch(pods, { key: { namespace, name }, patch }, { signal: this.#signal });
  }
}

function splitKey(key: string): { readonly namespace: string; readonly name: string } {
  const [namespace = "", name = ""] = key.split("/");
  return { namespace, name };
}
