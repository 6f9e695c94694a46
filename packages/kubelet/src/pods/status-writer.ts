/**
 * Writes the newest report of each pod as a patch, compared with our own last write, which the cache may not show yet. The
 * node lifecycle controller marks the pods of a node that was silent as not ready, and never takes that back: where the
 * API server shows another readiness than was reported, the report is written again.
 */
import { Fault, isFault } from "@cocoon/core";
import { findCondition } from "@cocoon/core/conditions";
import {
  isReplaced,
  getKey,
  keyText,
  type CacheEvent,
  type ObjectKey,
  type PodStatus,
  type ResourceType,
} from "@cocoon/kube";
import {
  OwnWrites,
  settled,
  startController,
  type Controller,
  type Outcome,
  type ReconcileContext,
} from "@cocoon/kube/controller";
import type { Pod, PodReport, ReportPod } from "../provider.ts";
import { isTerminal, pendingStatus, statusPatch } from "./pod-status.ts";
import type { PodControllerOptions } from "./pod-controller.ts";

export interface StatusWriterOptions extends Pick<
  PodControllerOptions,
  "client" | "source" | "hostIp" | "log" | "signal" | "registry"
> {
  readonly type: ResourceType<Pod>;
  readonly concurrency: number;
}

interface WaitingReport extends PodReport {
  readonly uid: string;
  readonly written: readonly (() => void)[];
}

/** How long a provider may take until the pod is shown as being created. */
const pendingAfterMs = 250;

export class StatusWriter implements AsyncDisposable {
  readonly #options: StatusWriterOptions;
  readonly #work: Controller;
  readonly #writes: OwnWrites<Pod>;
  readonly #waiting = new Map<string, WaitingReport>();
  /** What was written last, by pod. */
  readonly #last = new Map<string, { readonly uid: string; readonly status: PodStatus }>();
  readonly #subscription: Disposable;

  constructor(options: StatusWriterOptions) {
    this.#options = options;
    const { client, type, source, log, signal, concurrency, registry } = options;
    this.#writes = new OwnWrites({ client, type, source, log }).start();
    this.#work = startController({
      name: "pod-status",
      watches: [],
      log,
      signal,
      concurrency,
      queue: { backoffMaxMs: 20_000 }, // an API server that starts refuses writes that it takes a moment later
      reconcile: (key, context) => this.#writeWaiting(key, context),
      ...(registry ? { registry } : {}),
    });
    this.#subscription = source.subscribe((change) => this.#compare(change));
  }

  readonly report: ReportPod = (key, uid, report) => {
    const { promise, resolve } = Promise.withResolvers<void>();
    const waiting = this.#waiting.get(keyText(key));
    const before = waiting?.uid === uid ? waiting.annotations : {};
    this.#waiting.set(keyText(key), {
      uid,
      status: report.status,
      annotations: { ...before, ...report.annotations },
      written: [...(waiting?.written ?? []), resolve],
    });
    this.#work.enqueue(key);
    return promise;
  };

  /** A provider that is quick reports by itself; one that is slow has its pod shown as being created. */
  showPendingLater(pod: Pod): Disposable {
    const key = getKey(pod);
    const show = () => {
      if (this.#waiting.has(keyText(key)) || this.newest(pod).status?.containerStatuses) return;
      const status = pendingStatus(pod, this.#options.hostIp());
      this.#waiting.set(keyText(key), { uid: pod.metadata.uid ?? "", status, annotations: {}, written: [] });
      this.#work.enqueue(key);
    };
    const timer = setTimeout(show, pendingAfterMs).unref();
    return { [Symbol.dispose]: () => clearTimeout(timer) };
  }

  newest(pod: Pod): Pod {
    const newest = this.#writes.get(getKey(pod));
    return newest && newest.metadata.uid === pod.metadata.uid ? newest : pod;
  }

  /** Own writes come back here too: they show what was reported, or an older report, and then nothing is written. */
  #compare(change: CacheEvent<Pod>): void {
    const { object: pod } = change;
    const text = keyText(getKey(pod));
    if (change.kind === "deleted") return void this.#last.delete(text);
    const last = this.#last.get(text);
    if (!last || last.uid !== pod.metadata.uid || this.#waiting.has(text) || isTerminal(pod)) return;
    if (readReady(pod.status) === readReady(last.status)) return;
    this.#waiting.set(text, { ...last, annotations: {}, written: [] });
    this.#work.enqueue(getKey(pod));
  }

  async write(pod: Pod, report: PodReport, signal: AbortSignal): Promise<void> {
    this.#last.set(keyText(getKey(pod)), { uid: pod.metadata.uid ?? "", status: report.status });
    const body = statusPatch(this.newest(pod), report, new Date());
    if (!body) return;
    try {
      await this.#writes.patch(
        { key: getKey(pod), patch: { type: "merge", body } },
        { signal, subresource: "status" },
      );
    } catch (error) {
      // The pod is gone, or another one has its name by now (its uid is refused).
      if (isFault(error, "notFound") || isFault(error, "conflict") || isReplaced(error)) return;
      if (isFault(error, "invalid"))
        throw new Fault("internal", `the API server refuses the status: ${error.message}`, { cause: error });
      throw error;
    }
  }

  async #writeWaiting(key: ObjectKey, { signal }: ReconcileContext): Promise<Outcome> {
    const text = keyText(key);
    const report = this.#waiting.get(text);
    const pod = this.#options.source.get(key);
    if (report && pod && pod.metadata.uid === report.uid && !isTerminal(pod))
      await this.write(pod, report, signal);
    for (const written of report?.written ?? []) written();
    if (this.#waiting.get(text) === report) this.#waiting.delete(text);
    return settled;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#subscription[Symbol.dispose]();
    await this.#work.stop();
    this.#writes[Symbol.dispose]();
  }
}

function readReady(status: PodStatus | undefined): string | undefined {
  return findCondition(status?.conditions, "Ready")?.status;
}
