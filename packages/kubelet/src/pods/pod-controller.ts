/**
 * Brings the pods of one node to the provider, and their status back.
 *
 * Work on one pod is in order and never twice at once. What fails is tried again with growing pauses, for ever. A pod
 * is removed from the API only after the provider is done with it; a pod that vanished from the API is handed to
 * the provider with what it knows, and the provider decides what that means. Status is patched, never replaced.
 */
import { Fault, isFault, messageOf, type Logger, type Registry } from "@cocoon/core";
import { keyText, pods as podType, type KubeClient, type ObjectKey, type ResourceType } from "@cocoon/kube";
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
import type { Pod, PodProvider, PodReport } from "../provider.ts";
import { isTerminal, samePod } from "./compare-pods.ts";
import { failedAttemptStatus, pendingStatus, rejectedStatus, statusPatch } from "./pod-status.ts";
import { findMisfit } from "./resource-fit.ts";

const pods = podType as unknown as ResourceType<Pod>;

export interface PodControllerOptions {
  readonly client: KubeClient;
  /** Pods of this node. */
  readonly source: Source<Pod>;
  readonly provider: PodProvider;
  readonly resolve: (pod: Pod) => Promise<ResolvedEnvironment>;
  readonly allocatable: () => Readonly<Record<string, string>>;
  readonly hostIp: () => string | undefined;
  readonly events: EventRecorder;
  readonly log: Logger;
  readonly signal: AbortSignal;
  readonly concurrency?: number;
  readonly registry?: Registry;
}

export interface PodController extends AsyncDisposable {
  readonly ready: Promise<void>;
  /** Looks at a pod for a reason that no watch sees. */
  touch(key: ObjectKey): void;
}

/** VMs may take long to save and push: a provider has its own deadlines, this one only ends what hangs. */
const maxReconcileMs = 60 * 60_000;

/** How long the watch is given to catch up. */
const behindMs = 50;

/** How long a provider may take until the pod is shown as being created. */
const pendingAfterMs = 250;

export function startPodController(options: PodControllerOptions): PodController {
  return new RunningPods(options);
}

class RunningPods implements PodController {
  readonly #options: PodControllerOptions;
  readonly #work: Controller;
  readonly #statusWork: Controller;
  /** The newest word of the provider, until it is written. */
  readonly #reported = new Map<
    string,
    PodReport & { readonly uid: string; readonly written: readonly (() => void)[] }
  >();
  /** Answers to our own writes, until the cache has them: what was just written is not what was before. */
  readonly #answers = new Map<string, Pod>();

  constructor(options: PodControllerOptions) {
    this.#options = options;
    const { provider, source, log, signal, concurrency = 32, registry } = options;
    provider.onPodStatus((key, uid, report) => {
      const { promise, resolve } = Promise.withResolvers<void>();
      const waiting = this.#reported.get(keyText(key));
      const before = waiting?.uid === uid ? waiting.annotations : {};
      this.#reported.set(keyText(key), {
        uid,
        status: report.status,
        annotations: { ...before, ...report.annotations },
        written: [...(waiting?.written ?? []), resolve],
      });
      this.#statusWork.enqueue(key);
      return promise;
    });
    const common = { log, signal, concurrency, ...(registry ? { registry } : {}) };
    this.#statusWork = startController({
      ...common,
      name: "pod-status",
      watches: [],
      reconcile: (key, context) => this.#writeReported(key, context),
    });
    this.#work = startController({
      ...common,
      name: "pods",
      maxReconcileMs,
      watches: [
        watchObjects(source, {
          predicate: (change) => change.kind !== "updated" || concerns(change.old, change.object),
        }),
      ],
      reconcile: (key, context) => this.#reconcile(key, context),
    });
    void this.#work.ready.then(
      () => this.#enqueueStrays(),
      () => undefined,
    );
  }

  get ready(): Promise<void> {
    return this.#work.ready;
  }

  touch(key: ObjectKey): void {
    this.#work.enqueue(key);
  }

  /** Pods that the provider has and the API server no longer has. */
  async #enqueueStrays(): Promise<void> {
    const { provider, source } = this.#options;
    for (const pod of await provider.getPods()) {
      const key = { namespace: pod.metadata.namespace, name: pod.metadata.name ?? "" };
      if (!source.get(key)) this.#work.enqueue(key);
    }
  }

  async #reconcile(key: ObjectKey, { signal }: ReconcileContext): Promise<Outcome> {
    const { provider, source } = this.#options;
    const wanted = source.get(key);
    const known = await provider.getPod(key);
    if (known && known.metadata.uid !== wanted?.metadata.uid)
      await this.#call("Delete", known, () => provider.deletePod(known, { signal }));
    if (!wanted) {
      this.#answers.delete(keyText(key));
      return settled;
    }
    if (wanted.metadata.deletionTimestamp) return this.#remove(wanted, signal);
    if (isTerminal(wanted)) return settled;
    const current = known?.metadata.uid === wanted.metadata.uid ? known : undefined;
    if (current && this.#isBehind(wanted, current))
      return requeue(behindMs, "the watch is behind our own writes");
    await this.#bring(wanted, current, signal);
    return settled;
  }

  /** A pod from before our own last write would undo it; the watch will bring the newer one. */
  #isBehind(cached: Pod, current: Pod): boolean {
    const version = versionOf(cached);
    return version < versionOf(current) || version < versionOf(this.#newest(cached));
  }

  /** Creates the pod at the provider, or tells it what changed. */
  async #bring(wanted: Pod, current: Pod | undefined, signal: AbortSignal): Promise<void> {
    const { provider } = this.#options;
    if (!current && (await this.#rejects(wanted, signal))) return;
    const resolved = await this.#resolve(wanted, signal);
    if (current && !samePod(current, resolved)) {
      await this.#call("Update", wanted, () => provider.updatePod(resolved, { signal }));
    }
    if (current) return;
    using _pending = this.#showPendingLater(wanted);
    await this.#call("Create", wanted, () => provider.createPod(resolved, { signal }));
  }

  /** A provider that is quick speaks for itself; people who wait for one that is not are told that it is at work. */
  #showPendingLater(pod: Pod): Disposable {
    const { namespace, name = "", uid = "" } = pod.metadata;
    const key = { namespace, name };
    const show = () => {
      if (this.#reported.has(keyText(key)) || this.#newest(pod).status?.containerStatuses) return;
      const status = pendingStatus(pod, this.#options.hostIp());
      this.#reported.set(keyText(key), { uid, status, annotations: {}, written: [] });
      this.#statusWork.enqueue(key);
    };
    const timer = setTimeout(show, pendingAfterMs).unref();
    return { [Symbol.dispose]: () => clearTimeout(timer) };
  }

  async #remove(pod: Pod, signal: AbortSignal): Promise<Outcome> {
    const { client, provider } = this.#options;
    await this.#call("Delete", pod, () => provider.deletePod(pod, { signal }));
    const { namespace, name = "", uid } = pod.metadata;
    try {
      await client.delete(
        pods,
        { namespace, name },
        { signal, gracePeriodSeconds: 0, ...(uid ? { preconditions: { uid } } : {}) },
      );
    } catch (error) {
      if (!isFault(error, "notFound") && !isFault(error, "conflict")) throw error;
    }
    return settled;
  }

  async #rejects(pod: Pod, signal: AbortSignal): Promise<boolean> {
    const { source, allocatable, events } = this.#options;
    const misfit = findMisfit(pod, source.list(), allocatable());
    if (!misfit) return false;
    events.record(referenceTo(pods, pod), { type: "Warning", ...misfit });
    await this.#write(pod, { status: rejectedStatus(misfit.reason, misfit.message) }, signal);
    return true;
  }

  async #resolve(pod: Pod, signal: AbortSignal): Promise<Pod> {
    try {
      const { pod: resolved, notices } = await this.#options.resolve(pod);
      for (const notice of notices)
        this.#options.events.record(referenceTo(pods, pod), { type: "Warning", ...notice });
      return resolved;
    } catch (error) {
      if (error instanceof MissingEnvironment) {
        this.#options.events.record(referenceTo(pods, pod), {
          type: "Warning",
          reason: error.reason,
          message: error.message,
        });
        const status = failedAttemptStatus(pod, "CreateContainerConfigError", error.message);
        await this.#write(pod, { status }, signal);
      }
      throw error;
    }
  }

  /** Runs one call of the provider and tells people how it went. */
  async #call(what: "Create" | "Update" | "Delete", pod: Pod, call: () => Promise<void>): Promise<void> {
    const { events, log } = this.#options;
    const subject = referenceTo(pods, pod);
    try {
      await call();
      events.record(subject, {
        type: "Normal",
        reason: `Provider${what}Success`,
        message: `${what} pod in provider successfully`,
      });
    } catch (error) {
      if (isFault(error, "notFound") && what === "Delete") return;
      log.warn(
        { pod: `${pod.metadata.namespace}/${pod.metadata.name}`, what, error: messageOf(error) },
        "provider call failed",
      );
      events.record(subject, { type: "Warning", reason: `Provider${what}Failed`, message: messageOf(error) });
      if (what === "Create")
        await this.#write(
          pod,
          { status: failedAttemptStatus(pod, "ProviderFailed", messageOf(error)) },
          AbortSignal.timeout(10_000),
        );
      throw error;
    }
  }

  async #writeReported(key: ObjectKey, { signal }: ReconcileContext): Promise<Outcome> {
    const text = keyText(key);
    const report = this.#reported.get(text);
    const pod = this.#options.source.get(key);
    if (report && pod && pod.metadata.uid === report.uid && !isTerminal(pod))
      await this.#write(pod, report, signal);
    for (const written of report?.written ?? []) written();
    if (this.#reported.get(text) === report) this.#reported.delete(text);
    return settled;
  }

  /** As the API server last had it, as far as anybody here knows. */
  #newest(pod: Pod): Pod {
    const { namespace, name = "" } = pod.metadata;
    const text = keyText({ namespace, name });
    const cached = this.#options.source.get({ namespace, name }) ?? pod;
    const answer = this.#answers.get(text);
    if (!answer) return cached;
    const isAhead = answer.metadata.uid === cached.metadata.uid && versionOf(answer) > versionOf(cached);
    if (!isAhead) this.#answers.delete(text);
    return isAhead ? answer : cached;
  }

  async #write(pod: Pod, report: PodReport, signal: AbortSignal): Promise<void> {
    const { client } = this.#options;
    const { namespace, name = "" } = pod.metadata;
    const body = statusPatch(this.#newest(pod), report, new Date());
    if (!body) return;
    try {
      const answer = await client.patch(
        pods,
        { key: { namespace, name }, patch: { type: "merge", body } },
        { signal, subresource: "status" },
      );
      this.#answers.set(keyText({ namespace, name }), answer);
    } catch (error) {
      // Gone, or another pod of that name by now (its uid is refused): nobody is left to be told.
      const replaced =
        isFault(error, "invalid") && error.causes.some((cause) => cause.field === "metadata.uid");
      if (isFault(error, "notFound") || isFault(error, "conflict") || replaced) return;
      if (isFault(error, "invalid")) {
        throw new Fault("internal", `the API server refuses the status: ${error.message}`, { cause: error });
      }
      throw error;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#work.stop();
    await this.#statusWork.stop();
  }
}

/** Versions of one object grow. */
function versionOf(pod: Pod): number {
  return Number(pod.metadata.resourceVersion ?? 0);
}

/** Our own status writes come back as updates; only what a provider must hear of is work. */
function concerns(old: Pod, now: Pod): boolean {
  return (
    !samePod(old, now) ||
    old.metadata.deletionTimestamp !== now.metadata.deletionTimestamp ||
    old.metadata.uid !== now.metadata.uid ||
    isTerminal(old) !== isTerminal(now)
  );
}
