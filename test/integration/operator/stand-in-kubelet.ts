/**
 * A kubelet that acts out the annotation contract without machines: a "machine" is a counter that grows with every
 * look, its snapshot a manifest that carries the counter. It notes whatever must never happen: a machine that starts
 * empty although a copy of it sleeps, or that comes back older than it was.
 */
import {
  annotation,
  hibernateTag,
  latestTag,
  manifestAnnotation,
  mediaType,
  nodeLabel,
} from "@cocoon/contract";
import { isFault, messageOf, silentLogger, sleep } from "@cocoon/core";
import {
  leases,
  namespaces,
  nodes,
  openCaches,
  pods,
  type KubeConnection,
  type Node,
  type Pod,
} from "@cocoon/kube";
import { deleteByDigest, type Registry, type Repository } from "@cocoon/oci";

export interface StandInOptions {
  readonly connection: KubeConnection;
  readonly registry: Registry;
  readonly namespace?: string;
  readonly pool: string;
  readonly nodeNames: readonly string[];
  /** Give pods their nodes too, where no scheduler runs. */
  readonly bindsPods?: boolean;
  /** Leave the copy after a wake to the operator, as the Go kubelet does. */
  readonly leavesTags?: boolean;
}

interface Vm {
  readonly id: string;
  readonly node: string;
  counter: number;
}

const emptyConfig = Buffer.from("{}");

export class StandInKubelet implements AsyncDisposable {
  readonly vms = new Map<string, Vm>();
  /** What must never happen. */
  readonly violations: string[] = [];
  /** Machines that fail instead of becoming ready. */
  readonly failing = new Set<string>();
  /** Nobody hears from the kubelet while this is set. */
  silent = false;
  readonly #options: StandInOptions;
  readonly #abort = new AbortController();
  readonly #stack = new AsyncDisposableStack();
  readonly #working = new Map<string, Promise<void>>();
  readonly #again = new Set<string>();
  /** The highest counter that anybody was told of, by machine, while its life goes on. */
  readonly #known = new Map<string, number>();
  #ids = 0;
  #lookUp: (key: string) => Pod | undefined = () => undefined;
  #all: () => Iterable<Pod> = () => [];

  constructor(options: StandInOptions) {
    this.#options = options;
  }

  async start(): Promise<this> {
    const { connection, nodeNames, namespace } = this.#options;
    for (const name of nodeNames) await this.#register(name);
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
    void this.#heartbeat();
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

  async #register(name: string): Promise<void> {
    const { connection, pool } = this.#options;
    const node: Node = {
      metadata: { name, labels: { "kubernetes.io/hostname": name, [nodeLabel.pool]: pool } },
      spec: { taints: [{ key: "virtual-kubelet.io/provider", value: "cocoon", effect: "NoSchedule" }] },
    };
    const made = await connection.create(nodes, node, { signal: this.#signal });
    const amounts = { cpu: "4000", memory: "64Ti", pods: "100000", "ephemeral-storage": "64Ti" };
    const now = new Date().toISOString();
    const conditions = [
      {
        type: "Ready",
        status: "True",
        reason: "Up",
        message: "",
        lastHeartbeatTime: now,
        lastTransitionTime: now,
      },
    ];
    const status = { capacity: amounts, allocatable: amounts, conditions };
    await connection.patch(
      nodes,
      { key: { name }, patch: { type: "merge", body: { status } } },
      { signal: this.#signal, subresource: "status" },
    );
    const owner = { apiVersion: "v1", kind: "Node", name, uid: made.metadata.uid ?? "" };
    await this.#ensureLeaseNamespace();
    await connection.create(
      leases,
      {
        metadata: { namespace: "kube-node-lease", name, ownerReferences: [owner] },
        spec: { holderIdentity: name, leaseDurationSeconds: 40, renewTime: microNow() },
      },
      { signal: this.#signal },
    );
    // The node lifecycle controller adds not-ready first; it goes when the controller has seen the status.
    this.#stack.defer(async () => {
      const quiet = { signal: AbortSignal.timeout(10_000) };
      await connection.delete(nodes, { name }, quiet).catch(() => undefined);
    });
  }

  /** Made by the controller manager, where one runs. */
  async #ensureLeaseNamespace(): Promise<void> {
    if (!this.#options.bindsPods) return;
    const made = this.#options.connection.create(
      namespaces,
      { metadata: { name: "kube-node-lease" } },
      { signal: this.#signal },
    );
    await made.catch((error: unknown) => {
      if (!isFault(error, "alreadyExists")) throw error;
    });
  }

  async #heartbeat(): Promise<void> {
    const { connection, nodeNames } = this.#options;
    while (await sleep(8_000, { signal: this.#signal }))
      for (const name of nodeNames) {
        const patch = { type: "merge", body: { spec: { renewTime: microNow() } } } as const;
        const key = { namespace: "kube-node-lease", name };
        await connection.patch(leases, { key, patch }, { signal: this.#signal }).catch(() => undefined);
      }
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
        if (!isFault(error)) this.violations.push(`stand-in: ${messageOf(error)}`);
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
    const copy = await this.#copyOf(vmName, hibernateTag);
    const node = pod.spec?.nodeName ?? "";
    if (copy) {
      if (copy.counter < (this.#known.get(vmName) ?? 0))
        this.violations.push(`${vmName} came back at ${copy.counter}, but was at ${this.#known.get(vmName)}`);
      if (!this.#options.leavesTags) await this.#publish(pod, { [annotation.snapshotDigest]: copy.digest });
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
    const copy = vm ? undefined : await this.#copyOf(vmName, hibernateTag);
    if (!vm && !copy) {
      if (annotations[annotation.lifecycleState] === "hibernated")
        return void this.violations.push(`${vmName} sleeps, and its copy is gone`);
      vm = await this.#bringUp(pod, vmName);
      if (!vm) return;
    }
    const digest = vm ? await this.#push(vmName, hibernateTag, vm.counter) : (copy?.digest ?? "");
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
      await this.#push(vmName, hibernateTag, vm.counter);
    else if (vm) {
      const policy = annotations[annotation.snapshotPolicy] ?? "always";
      const wanted = policy === "always" || (policy === "main-only" && vmName.endsWith("-0"));
      if (wanted) await this.#push(vmName, latestTag, vm.counter);
      const stale = await this.#copyOf(vmName, hibernateTag);
      if (stale && annotations[annotation.lifecycleState] === "ready")
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
    await this.#push(vmName, tag, this.vms.get(vmName)?.counter ?? 0);
    this.vms.delete(vmName);
  }

  /** The life of a machine that was given up asleep is over for its name. */
  forget(vmName: string): void {
    this.#known.delete(vmName);
  }

  #repository(vmName: string): Repository {
    return this.#options.registry.repository(vmName);
  }

  async #push(vmName: string, tag: string, counter: number): Promise<string> {
    const repository = this.#repository(vmName);
    const config = {
      mediaType: mediaType.snapshotConfig,
      digest: `sha256:${emptyDigest}`,
      size: emptyConfig.length,
    };
    const manifest = {
      schemaVersion: 2,
      mediaType: mediaType.ociManifest,
      config,
      layers: [],
      annotations: { [manifestAnnotation.created]: new Date().toISOString(), counter: String(counter), tag },
    };
    const options = { signal: this.#signal };
    await repository.putBlob(
      { digest: config.digest, size: emptyConfig.length, open: () => once() },
      options,
    );
    const body = { bytes: Buffer.from(JSON.stringify(manifest)), mediaType: mediaType.ociManifest };
    return repository.putManifest(tag, body, options);
  }

  async #copyOf(
    vmName: string,
    tag: string,
  ): Promise<{ readonly digest: string; readonly counter: number } | undefined> {
    try {
      const { digest, bytes } = await this.#repository(vmName).getManifest(tag, { signal: this.#signal });
      const manifest = JSON.parse(Buffer.from(bytes).toString("utf8")) as {
        annotations: Record<string, string>;
      };
      return { digest, counter: Number(manifest.annotations["counter"]) };
    } catch (error) {
      if (isFault(error, "notFound")) return undefined;
      throw error;
    }
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

const emptyDigest = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";

async function* once(): AsyncGenerator<Uint8Array> {
  yield await Promise.resolve(emptyConfig);
}

function splitKey(key: string): { readonly namespace: string; readonly name: string } {
  const [namespace = "", name = ""] = key.split("/");
  return { namespace, name };
}

function microNow(): string {
  return new Date().toISOString().replace("Z", "000Z");
}
