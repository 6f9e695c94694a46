/**
 * Both controllers on an API server and a registry in memory. Everything happens when the test says so: the caches show
 * what they saw at the last `sync`, every write of a controller may be its last, before or after it took effect.
 */
import { annotation, nodeLabel, readText, type CocoonHibernation, type CocoonSet } from "@cocoon/contract";
import { Registry, silentLogger, type Clock, type Fault } from "@cocoon/core";
import {
  pods,
  type KubeClient,
  type KubeObject,
  type Node,
  type ObjectKey,
  type Pod,
  type ResourceType,
} from "@cocoon/kube";
import { OwnWrites, type Outcome, type Source } from "@cocoon/kube/controller";
import { FakeCluster } from "@cocoon/kube/controller/testing";
import { requiredNode } from "../cocoonset/pod-template.ts";
import type { SetParts } from "../cocoonset/parts.ts";
import { DeletionJobs } from "../cocoonset/deletion-jobs.ts";
import { SetReconciler } from "../cocoonset/reconcile.ts";
import { HibernationReconciler } from "../hibernation/reconcile.ts";
import { cocoonHibernations, cocoonSets, type CustomObject } from "../kinds.ts";
import { operatorMetrics } from "../metrics.ts";
import { podFinalizer, FakeKubelet } from "./fake-kubelet.ts";
import { FakeSnapshots } from "./fake-snapshots.ts";

/** What a cache knew when it was last told. */
class LaggingSource<T extends KubeObject> implements Source<T> {
  readonly #server: FakeCluster;
  readonly #plural: string;
  #objects = new Map<string, T>();
  #version = "0";

  constructor(server: FakeCluster, plural: string) {
    this.#server = server;
    this.#plural = plural;
    this.sync();
  }

  sync(): void {
    this.#version = this.#server.resourceVersion;
    this.#objects = new Map(
      this.#server
        .objects<T>(this.#plural)
        .map((object) => [formatKey(object.metadata), structuredClone(object)]),
    );
  }

  get resourceVersion(): string {
    return this.#version;
  }

  get(key: ObjectKey): T | undefined {
    return this.#objects.get(formatKey(key));
  }

  list(): Iterable<T> {
    return this.#objects.values();
  }

  synced(): Promise<void> {
    return Promise.resolve();
  }

  subscribe(): Disposable {
    return { [Symbol.dispose]: () => undefined };
  }
}

function formatKey({
  namespace = "",
  name = "",
}: {
  namespace?: string | undefined;
  name?: string | undefined;
}): string {
  return `${namespace}/${name}`;
}

/** Thrown in place of a write, or after it: the process ends here. */
class Killed extends Error {}

export class Simulation {
  readonly server = new FakeCluster();
  readonly registry = new FakeSnapshots();
  readonly kubelet: FakeKubelet;
  readonly people: KubeClient = this.server.client();
  nowMs = Date.parse("2026-06-01T00:00:00Z");
  /** The operator's write after this many more is its last; Infinity for a long life. */
  writesLeft = Infinity;
  /** No time passes: what is scheduled for later runs in the next turn. */
  readonly #clock: Clock = {
    now: () => this.nowMs,
    wallNow: () => this.nowMs,
    schedule: (_ms, callback) => {
      const pending = setImmediate(callback);
      return () => clearImmediate(pending);
    },
  };

  /** What every create of the operator fails with. */
  refuse: Fault | undefined;
  /** The cache of pods shows none, as one does that was filled from an older list. */
  hidePods = false;

  #sources = this.#openSources();
  #parts = this.#openParts();
  #setReconciler = new SetReconciler(this.#parts);

  constructor(options: { readonly leavesTags: boolean }) {
    this.kubelet = new FakeKubelet(this.people, this.registry, options.leavesTags);
    this.registry.beforeChange = () => this.#countWrite();
  }

  /** A new process: it remembers nothing, and its caches are fresh. */
  restart(): void {
    this.writesLeft = Infinity;
    this[Symbol.dispose]();
    this.#sources = this.#openSources();
    this.#parts = this.#openParts();
    this.#setReconciler = new SetReconciler(this.#parts);
  }

  [Symbol.dispose](): void {
    for (const writes of [this.#parts.sets, this.#parts.pods, this.#parts.hibernations])
      writes[Symbol.dispose]();
  }

  sync(): void {
    for (const source of Object.values(this.#sources)) source.sync();
  }

  async reconcileSet(name: string): Promise<Outcome | undefined> {
    return this.#run((context) => this.#setReconciler.reconcile({ namespace: "lab", name }, context));
  }

  async reconcileHibernation(name: string): Promise<void> {
    await this.#run((context) =>
      new HibernationReconciler(this.#parts).reconcile({ namespace: "lab", name }, context),
    );
  }

  async #run(
    reconcile: (context: {
      signal: AbortSignal;
      log: typeof silentLogger;
      failures: number;
    }) => Promise<Outcome>,
  ): Promise<Outcome | undefined> {
    let outcome: Outcome | undefined;
    try {
      outcome = await reconcile({ signal: new AbortController().signal, log: silentLogger, failures: 0 });
    } catch {
      // What failed is tried again by a later reconcile; what was killed starts anew.
    }
    await this.#parts.deletions.idle();
    if (this.writesLeft < 0) this.restart();
    return outcome;
  }

  sets(): CocoonSet[] {
    return this.server.objects<CocoonSet>("cocoonsets");
  }

  hibernations(): CocoonHibernation[] {
    return this.server.objects<CocoonHibernation>("cocoonhibernations");
  }

  pods(): Pod[] {
    return this.server.objects<Pod>("pods");
  }

  /** Gives a pod its node, as the scheduler does; false when there is none for it. */
  async schedule(pod: Pod, nodeNames: readonly string[]): Promise<boolean> {
    const wanted = requiredNode(pod);
    const node = wanted === "" ? nodeNames[0] : nodeNames.find((each) => each === wanted);
    if (node === undefined || pod.spec?.nodeName) return false;
    const body = { metadata: { finalizers: [podFinalizer] }, spec: { nodeName: node } };
    await this.patch(pods, pod.metadata.name ?? "", body);
    return true;
  }

  async patch(type: ResourceType<KubeObject>, name: string, body: object): Promise<void> {
    const { signal } = new AbortController();
    await this.people.patch(
      type,
      { key: { namespace: "lab", name }, patch: { type: "merge", body } },
      { signal },
    );
  }

  #openSources() {
    const source = <T extends KubeObject>(type: ResourceType<T>) =>
      new LaggingSource<T>(this.server, type.plural);
    return { sets: source(cocoonSets), hibernations: source(cocoonHibernations), pods: source(pods) };
  }

  /** A killed process writes nothing any more, whether it noticed or not. */
  #countWrite(): void {
    this.writesLeft -= 1;
    if (this.writesLeft < 0) throw new Killed("killed before a write");
  }

  #openParts(): SetParts & { readonly hibernations: OwnWrites<CustomObject> } {
    const client = this.server.client({
      before: ({ verb }) => {
        if (verb !== "get" && verb !== "list") this.#countWrite();
        if (verb === "create" && this.refuse) throw this.refuse;
      },
    });
    const { sets, hibernations, pods: podSource } = this.#sources;
    const overlay = { client, log: silentLogger, clock: this.#clock };
    const byPods = (test: (pod: Pod, value: string) => boolean) => ({
      get: (value: string) => (this.hidePods ? [] : [...podSource.list()].filter((pod) => test(pod, value))),
    });
    return {
      client,
      sets: new OwnWrites({ ...overlay, type: cocoonSets, source: sets }),
      pods: new OwnWrites({ ...overlay, type: pods, source: podSource }),
      hibernations: new OwnWrites({ ...overlay, type: cocoonHibernations, source: hibernations }),
      podsByOwner: byPods((pod, uid) => pod.metadata.ownerReferences?.[0]?.uid === uid),
      podsByNode: byPods((pod, name) => pod.spec?.nodeName === name),
      podsByVmName: byPods((pod, name) => readText(pod.metadata.annotations, annotation.vmName) === name),
      hibernationsByPod: {
        get: (key) => [...hibernations.list()].filter((each) => formatKey(each.metadata) === key),
      },
      grants: { list: () => [] },
      nodes: { get: ({ name }) => this.#node(name) },
      nodesByMachine: { get: () => [] },
      snapshots: this.registry,
      deletions: new DeletionJobs(1, this.#clock),
      signal: new AbortController().signal,
      events: { record: () => undefined, [Symbol.asyncDispose]: () => Promise.resolve() },
      metrics: operatorMetrics(new Registry()),
      log: silentLogger,
      now: () => new Date(this.nowMs),
      expiredAt: new Map(),
      statusDelayMs: 0,
    };
  }

  #node(name: string): Node | undefined {
    if (!name.startsWith("n")) return undefined;
    const labels = { [nodeLabel.pool]: "default" };
    return { metadata: { name, labels }, status: { conditions: [{ type: "Ready", status: "True" }] } };
  }
}
