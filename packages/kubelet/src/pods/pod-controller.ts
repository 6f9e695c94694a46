/**
 * Brings the pods of one node to the provider, and their status back. Reconciles of one pod run one at a time, with back-off.
 *
 * A pod is removed from the API only after the provider is done with it. A missing pod is not a deleted pod: the provider deletes
 * only what had a deletion requested, and hears of other pods as disappeared. Before either, the API server is read again.
 */
import { isFault, ignoreFault, type Logger, type Registry } from "@cocoon/core";
import {
  includesVersion,
  isSameState,
  getKey,
  keyText,
  pods as podType,
  type KubeClient,
  type ObjectKey,
  type ResourceType,
} from "@cocoon/kube";
import {
  referenceTo,
  requeue,
  settled,
  startController,
  watchObjects,
  type Controller,
  type EventRecorder,
  type Outcome,
  type ReconcileContext,
  type Source,
} from "@cocoon/kube/controller";
import { MissingEnvironment, type ResolvedEnvironment } from "../environment/resolve.ts";
import type { DisappearanceCause, Pod, PodProvider, ProviderOptions } from "../provider.ts";
import { isRelevant, isTerminal, samePod, failedAttemptStatus, rejectedStatus } from "./pod-status.ts";
import { callProvider, type ProviderCall } from "./provider-call.ts";
import { findMisfit } from "./resource-fit.ts";
import { isCollected, isDeletionRequested, SeenDeletions } from "./seen-deletions.ts";
import { StatusWriter } from "./status-writer.ts";

const pods = podType as unknown as ResourceType<Pod>;

export interface PodControllerOptions {
  readonly client: KubeClient;
  readonly source: Source<Pod>;
  readonly provider: PodProvider;
  readonly resolve: (pod: Pod) => Promise<ResolvedEnvironment>;
  readonly allocatable: () => Readonly<Record<string, string>>;
  readonly hostIp: () => string | undefined;
  /** Whether others may have given this node up and removed its pods. Throws when that cannot be found out. */
  readonly isCutOff: (options: ProviderOptions) => Promise<boolean>;
  readonly events: EventRecorder;
  readonly log: Logger;
  readonly signal: AbortSignal;
  readonly concurrency?: number;
  readonly registry?: Registry;
}

/** VMs may take long to save and push: a provider has its own deadlines, this one only ends what hangs. */
const maxReconcileMs = 60 * 60_000;
/** A pod that waits for a registry or runtime continues soon after that is back, however long it was away. */
const backoff = { backoffMaxMs: 20_000, terminalBackoffMs: 60_000 };

/** How often a cache that is behind is looked at, and after how long the API server is read instead. */
const staleCheckMs = 50;
const maxStaleMs = 1_000;

/** How long the watch is given to show what the API server says. */
const watchLagMs = 500;

type Ending = "requested" | DisappearanceCause;

export class PodController implements AsyncDisposable {
  readonly #options: PodControllerOptions;
  readonly #work: Controller;
  readonly #status: StatusWriter;
  readonly #deletions = new SeenDeletions();
  readonly #subscription: Disposable;
  /** Since when the cache is behind what the provider has of a pod. */
  readonly #staleSince = new Map<string, number>();

  constructor(options: PodControllerOptions) {
    this.#options = options;
    const { provider, source, log, signal, concurrency = 32, registry } = options;
    const common = { log, signal, concurrency, ...(registry ? { registry } : {}) };
    const { client, hostIp } = options;
    this.#status = new StatusWriter({ ...common, client, type: pods, source, hostIp });
    provider.onPodStatus(this.#status.report);
    // Before the controller: a reconcile finds what was seen.
    this.#subscription = source.subscribe((change) => this.#deletions.note(change));
    this.#work = startController({
      ...common,
      name: "pods",
      maxReconcileMs,
      queue: backoff,
      watches: [
        watchObjects(source, {
          predicate: (change) => change.kind !== "updated" || isRelevant(change.old, change.object),
        }),
      ],
      reconcile: (key, context) => this.#reconcile(key, context),
    });
    void this.#work.ready.then(
      () => this.#enqueueMissing(),
      () => undefined,
    );
  }

  get ready(): Promise<void> {
    return this.#work.ready;
  }

  touch(key: ObjectKey): void {
    this.#work.enqueue(key);
  }

  /** Pods that the provider has and the API server does not show. */
  async #enqueueMissing(): Promise<void> {
    const { provider, source } = this.#options;
    for (const pod of await provider.getPods()) if (!source.get(getKey(pod))) this.#work.enqueue(getKey(pod));
  }

  async #reconcile(key: ObjectKey, { signal }: ReconcileContext): Promise<Outcome> {
    const { provider, source } = this.#options;
    const cached = source.get(key);
    const known = await provider.getPod(key);
    if (known && known.metadata.uid !== cached?.metadata.uid) {
      if (await this.#isThere(known, signal))
        return requeue(watchLagMs, "the cache does not show the pod yet");
      await this.#end(this.#lastSeen(known), await this.#whyGone(known, signal), signal);
    }
    this.#deletions.forgetOthers(key, cached?.metadata.uid);
    if (!cached) {
      this.#staleSince.delete(keyText(key));
      return settled;
    }
    if (cached.metadata.deletionTimestamp) return this.#terminate(cached, signal);
    if (isTerminal(cached)) return settled;
    const current = known?.metadata.uid === cached.metadata.uid ? known : undefined;
    return this.#bring(cached, current, signal);
  }

  /** Reads the API server itself. A read that fails says nothing about the pod: it is thrown, and tried again. */
  #read(key: ObjectKey, signal: AbortSignal): Promise<Pod | undefined> {
    return ignoreFault("notFound", this.#options.client.get(pods, key, { signal }));
  }

  async #isThere(pod: Pod, signal: AbortSignal): Promise<boolean> {
    const live = await this.#read(getKey(pod), signal);
    return live?.metadata.uid === pod.metadata.uid;
  }

  /** The newest of what the provider and the watch have; the status, with the conditions of others, is the watch's. */
  #lastSeen(known: Pod): Pod {
    const seen = this.#deletions.get(known)?.pod;
    if (!seen) return known;
    const isNewest = includesVersion(seen.metadata.resourceVersion, known.metadata.resourceVersion);
    return isNewest ? seen : { ...known, ...(seen.status ? { status: seen.status } : {}) };
  }

  async #whyGone(known: Pod, signal: AbortSignal): Promise<Ending> {
    const seen = this.#deletions.get(known);
    if (seen?.started || known.metadata.deletionTimestamp) return "requested";
    if (!seen || seen.inferred || isCollected(seen.pod)) return "unknown";
    if (await this.#options.isCutOff({ signal })) return "unknown";
    return seen.requested ? "requested" : "forceDeleted";
  }

  async #terminate(cached: Pod, signal: AbortSignal): Promise<Outcome> {
    const { client } = this.#options;
    const { uid = "" } = cached.metadata;
    const live = await this.#read(getKey(cached), signal);
    // Gone or replaced meanwhile, or restored from a time before its deletion: the watch will show it.
    if (live?.metadata.uid !== uid || !live.metadata.deletionTimestamp)
      return requeue(watchLagMs, "the cache does not show the pod as it is");
    const isRequested = this.#deletions.get(live)?.requested || isDeletionRequested(live);
    const ending = isRequested ? "requested" : await this.#whyForced(live, signal);
    await this.#end(live, ending, signal);
    try {
      await client.delete(pods, getKey(cached), { signal, gracePeriodSeconds: 0, preconditions: { uid } });
    } catch (error) {
      if (!isFault(error, "notFound") && !isFault(error, "conflict")) throw error;
    }
    return settled;
  }

  /** Deleted at once, and kept by a finalizer, or just about to go. */
  async #whyForced(pod: Pod, signal: AbortSignal): Promise<DisappearanceCause> {
    if (isCollected(pod)) return "unknown";
    return (await this.#options.isCutOff({ signal })) ? "unknown" : "forceDeleted";
  }

  async #end(pod: Pod, ending: Ending, signal: AbortSignal): Promise<void> {
    const { provider, log } = this.#options;
    if (ending === "requested") {
      this.#deletions.markStarted(pod);
      return this.#call("Delete", pod, () => provider.deletePod(pod, { signal }));
    }
    log.warn({ pod: keyText(getKey(pod)), uid: pod.metadata.uid, cause: ending }, "pod disappeared");
    await this.#call("Disappeared", pod, () => provider.podDisappeared(pod, { cause: ending, signal }));
  }

  async #bring(cached: Pod, current: Pod | undefined, signal: AbortSignal): Promise<Outcome> {
    const { provider } = this.#options;
    if (!current && (await this.#rejects(cached, signal))) return settled;
    if (current && this.#isStale(cached, current)) return this.#waitForCache(cached, current, signal);
    this.#staleSince.delete(keyText(getKey(cached)));
    const resolved = await this.#resolve(cached, signal);
    if (!current) {
      using _pending = this.#status.showPendingLater(cached);
      await this.#call("Create", cached, () => provider.createPod(resolved, { signal }));
    } else if (!samePod(current, resolved))
      await this.#call("Update", cached, () => provider.updatePod(resolved, { signal }));
    return settled;
  }

  /** A pod from before the last own write would undo it. */
  #isStale(cached: Pod, current: Pod): boolean {
    const { resourceVersion } = cached.metadata;
    const isBehind = (newest: Pod): boolean =>
      newest.metadata.resourceVersion !== undefined &&
      !includesVersion(resourceVersion, newest.metadata.resourceVersion);
    return isBehind(current) || isBehind(this.#status.newest(cached));
  }

  /** When the watch does not show the own write, versions may have gone backwards (etcd restored): then the server's pod counts. */
  async #waitForCache(cached: Pod, current: Pod, signal: AbortSignal): Promise<Outcome> {
    const text = keyText(getKey(cached));
    const since = this.#staleSince.get(text) ?? performance.now();
    this.#staleSince.set(text, since);
    if (performance.now() - since < maxStaleMs)
      return requeue(staleCheckMs, "the cache is behind own writes");
    const live = await this.#read(getKey(cached), signal);
    if (!live || !isSameState(live, cached)) return requeue(watchLagMs, "the cache is behind the API server");
    this.#staleSince.delete(text);
    const { log, provider } = this.#options;
    log.warn(
      { pod: text, uid: cached.metadata.uid },
      "resource versions went backwards; pod is handed over again",
    );
    const resolved = await this.#resolve(live, signal);
    await this.#call("Update", live, () => provider.updatePod(resolved, { signal }));
    return settled;
  }

  async #rejects(pod: Pod, signal: AbortSignal): Promise<boolean> {
    const { source, allocatable, events } = this.#options;
    const misfit = findMisfit(pod, source.list(), allocatable());
    if (!misfit) return false;
    events.record(referenceTo(pods, pod), { type: "Warning", ...misfit });
    await this.#status.write(pod, { status: rejectedStatus(misfit.reason, misfit.message) }, signal);
    return true;
  }

  async #resolve(pod: Pod, signal: AbortSignal): Promise<Pod> {
    const { events } = this.#options;
    const subject = referenceTo(pods, pod);
    try {
      const { pod: resolved, notices } = await this.#options.resolve(pod);
      for (const notice of notices) events.record(subject, { type: "Warning", ...notice });
      return resolved;
    } catch (error) {
      if (error instanceof MissingEnvironment) {
        events.record(subject, { type: "Warning", reason: error.reason, message: error.message });
        const status = failedAttemptStatus(pod, "CreateContainerConfigError", error.message);
        await this.#status.write(pod, { status }, signal);
      }
      throw error;
    }
  }

  #call(what: ProviderCall, pod: Pod, call: () => Promise<void>): Promise<void> {
    const { events, log } = this.#options;
    return callProvider({ what, pod, events, log, status: this.#status }, call);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#work.stop();
    this.#subscription[Symbol.dispose]();
    await this.#status[Symbol.asyncDispose]();
  }
}
