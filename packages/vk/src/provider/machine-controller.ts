/**
 * The loop of every machine on this node: observe, plan one step, apply it, observe again. Nothing that matters is kept in
 * memory; the pod, the runtime and the registry hold the state.
 */
import type { Attributes, Tracer } from "@opentelemetry/api";
import { findSandboxOwner } from "@cocoon/contract";
import { Backoff, Fault, isFault, getErrorMessage, sleep, type Abortable, type Logger } from "@cocoon/core";
import { keyText, pods as podType, type KubeClient, type ObjectKey } from "@cocoon/kube";
import { referenceTo, type EventRecorder } from "@cocoon/kube/controller";
import type { DisappearanceOptions, Pod, ReportPod } from "@cocoon/kubelet";
import { isMachine, readPodMachine } from "../pod-machine.ts";
import { PodWriter } from "../pod-writer.ts";
import { announceIfSlow } from "./announce-slow.ts";
import { applyStep } from "./apply.ts";
import { assertCpuClass, assertIdentity, isOwnName } from "./identity.ts";
import { endsAsleep } from "./machine-state.ts";
import { findVm, observeMachine } from "./observe.ts";
import type { Ending } from "./observed.ts";
import { freezeOrphan } from "./orphans.ts";
import { planMachine } from "./plan.ts";
import { reportResumed } from "./readiness.ts";
import { isListed, unlistHibernated } from "./snapshot-list.ts";
import { clearSandboxNode } from "./sandbox-holder.ts";
import type { StepContext } from "./step-context.ts";
import type { Step } from "./step.ts";
import { TrackedMachine } from "./tracked-machine.ts";

export interface ControllerSettings extends Pick<
  StepContext,
  | "node"
  | "canSavePaused"
  | "status"
  | "cloneRoots"
  | "login"
  | "probeTimes"
  | "restartPauseMs"
  | "livenessSecondMs"
  | "restoreMode"
  | "snapshotConfigMap"
  | "dns"
  | "description"
> {
  readonly cpuClass: string;
}

export interface ControllerParts
  extends Abortable, Pick<StepContext, "runtime" | "snapshots" | "metrics" | "ping"> {
  readonly client: KubeClient;
  readonly events: EventRecorder;
  readonly log: Logger;
  readonly settings: ControllerSettings;
  /** Default: to nowhere. */
  readonly tracer?: Tracer;
  /** Tests observe, or end, what happens between two steps. */
  readonly beforeStep?: (vmName: string, step: string) => Promise<void>;
}

/** More steps than any path through the plan has: a plan that repeats itself ends as an error. */
const maxSteps = 40;

/** Nothing follows them until something changes. */
const terminal: ReadonlySet<Step["kind"]> = new Set(["settled", "wait", "showStatic", "showAsleep"]);

/** They come after `ready`: their failure is retried here, and does not make the machine a failed one. */
const background: ReadonlySet<Step["kind"]> = new Set([
  "publish",
  "setEnvironment",
  "pause",
  "clearPaused",
  "saveNamed",
  "takeOver",
  "dropTag",
  "reportSnapshot",
  "clearDigest",
]);

export class MachineController {
  readonly #parts: ControllerParts;
  readonly #machines = new Map<string, TrackedMachine>();
  #report: ReportPod = () => Promise.resolve();

  constructor(parts: ControllerParts) {
    this.#parts = parts;
  }

  onPodStatus(report: ReportPod): void {
    this.#report = report;
  }

  find(key: ObjectKey): TrackedMachine | undefined {
    return this.#machines.get(keyText(key));
  }

  machines(): Iterable<TrackedMachine> {
    return this.#machines.values();
  }

  /** Brings the machine to what its pod asks for; resolves when no step is left, or when one waits for the guest. */
  async bring(pod: Pod, { signal }: Abortable): Promise<void> {
    const { lifecycle } = readPodMachine(pod);
    const isNew =
      this.find({ namespace: pod.metadata.namespace, name: pod.metadata.name ?? "" }) === undefined;
    const tracked = this.#track(pod);
    if (isNew && lifecycle.state === "hibernating") reportResumed(this.#createContext(tracked), "hibernate");
    await tracked.exclusively(async () => {
      tracked.writer = this.#createWriter(pod);
      tracked.ending = undefined;
      try {
        assertCpuClass(pod, this.#parts.settings.cpuClass);
        assertIdentity(pod);
        await this.#reconcile(tracked, signal);
        tracked.failed = false;
      } catch (error) {
        tracked.failed = true;
        // It is not known when the next attempt comes: a snapshot that the guest may have left behind is not used again.
        tracked.saved.id = undefined;
        await this.#announceFailure(tracked, error, signal);
        throw error;
      }
    });
  }

  /** Ends the machine of a pod whose deletion was requested. */
  end(pod: Pod, options: Abortable): Promise<void> {
    return this.#end(pod, "deleted", options);
  }

  /**
   * The pod is gone, and no deletion was requested. One that a client force-deleted ends as a deleted one, after a snapshot
   * was pushed and verified. For any other reason nothing may be destroyed: the VM becomes an orphan.
   */
  async disappear(pod: Pod, { cause, signal }: DisappearanceOptions): Promise<void> {
    if (cause === "forceDeleted" && this.#parts.snapshots) return this.#end(pod, "forceDeleted", { signal });
    const tracked = this.find({ namespace: pod.metadata.namespace, name: pod.metadata.name ?? "" });
    if (!tracked || tracked.uid !== pod.metadata.uid) return;
    await tracked.exclusively(async () => {
      const { vm } = readPodMachine(tracked.writer.pod);
      if (vm.managed)
        await freezeOrphan({ ...this.#parts, node: this.#parts.settings.node, signal }, vm.vmName);
      this.#forget(tracked);
      this.#parts.log.warn(
        { pod: keyText(tracked.key), vm: vm.vmName, cause },
        "pod disappeared; its VM is kept",
      );
    });
  }

  /** Hibernates the VM of a pod that is gone and that this process may never have known; what fails is forgotten again. */
  async handOver(pod: Pod, options: Abortable): Promise<void> {
    try {
      await this.#end(pod, "forceDeleted", options);
    } catch (error) {
      const tracked = this.find({ namespace: pod.metadata.namespace, name: pod.metadata.name ?? "" });
      if (tracked?.uid === pod.metadata.uid && tracked?.ending) this.#forget(tracked);
      throw error;
    }
  }

  async #end(pod: Pod, ending: Ending, options: Abortable): Promise<void> {
    // A pod that never was a machine has nothing to end; one whose annotations were damaged is ended as it was.
    const known = this.find({ namespace: pod.metadata.namespace, name: pod.metadata.name ?? "" });
    const readable = isMachine(pod) ? pod : known?.writer.pod;
    if (!readable || !isMachine(readable) || !isOwnName(readable)) return;
    const { pod_lifecycle_total: lifecycle } = this.#parts.metrics;
    const tracked = this.#track(readable);
    await tracked.exclusively(async () => {
      tracked.writer = this.#createWriter(readable);
      tracked.failed = true;
      tracked.saved.id = undefined;
      tracked.ending = ending;
      const context = this.#createContext(tracked);
      try {
        await this.#reconcile(tracked, options.signal);
        await this.#clearNote(context, options);
        const mayContinue = endsAsleep({ machine: readPodMachine(readable), sandbox: "none" });
        if (isListed(context) && !mayContinue && !findSandboxOwner(readable))
          await unlistHibernated(context, options);
      } catch (error) {
        const reason = error instanceof Fault ? error.code : "internal";
        lifecycle.inc({ op: "delete", result: "failed", reason });
        throw error;
      }
      lifecycle.inc({ op: "delete", result: "ok", reason: "" });
      context.log.info({ ending }, "machine deleted");
      this.#forget(tracked);
    });
  }

  /** A Sandbox that lives and left nothing may be booted by any node at once. */
  async #clearNote(context: StepContext, options: Abortable): Promise<void> {
    const { tracked, node, client, snapshots, runtime } = context;
    const { vm, ofSandbox } = readPodMachine(tracked.writer.pod);
    if (!ofSandbox || (await findVm(runtime, vm.vmName, options))) return;
    if ((await snapshots?.inRegistry.findHibernatedDigest(vm.vmName, options)) !== undefined) return;
    await clearSandboxNode({ client, pod: tracked.writer.pod, node }, options);
  }

  /** A VM of that name changed. */
  requeueVm(vmName: string): void {
    for (const tracked of this.#machines.values())
      if (readPodMachine(tracked.writer.pod).vm.vmName === vmName) this.#requeue(tracked);
  }

  /** Reconciles in the background until that succeeds: one loop per machine, however often it is requested. */
  #requeue(tracked: TrackedMachine): void {
    tracked.requeued = true;
    if (tracked.retrying) return;
    tracked.retrying = true;
    void this.#retry(tracked).finally(() => {
      tracked.retrying = false;
      // Requested between the loop's last look and its end.
      if (tracked.requeued && !tracked.ended && !this.#parts.signal.aborted) this.#requeue(tracked);
    });
  }

  async #retry(tracked: TrackedMachine): Promise<void> {
    const { signal, log } = this.#parts;
    const backoff = new Backoff({ baseMs: 500, maxMs: 15_000 });
    while (tracked.requeued && !signal.aborted && !tracked.ended) {
      tracked.requeued = false;
      try {
        await tracked.exclusively(async () => {
          // A deletion is retried by the kubelet, with the pod as it is then.
          if (!tracked.ended && !tracked.ending) await this.#reconcile(tracked, signal);
        });
        if (!tracked.retryLater) backoff.reset();
      } catch (error) {
        if (signal.aborted) return;
        log.warn({ pod: keyText(tracked.key), error: getErrorMessage(error) }, "reconcile failed; retrying");
        tracked.retryLater = true;
      }
      if (!tracked.retryLater) continue;
      tracked.retryLater = false;
      tracked.requeued = true;
      await sleep(backoff.nextMs(), { signal });
    }
  }

  async #reconcile(tracked: TrackedMachine, signal: AbortSignal): Promise<void> {
    const context = this.#createContext(tracked);
    try {
      await this.#runSteps(context, signal);
    } catch (error) {
      if (isFault(error, "damaged")) reportDamage(context, error);
      throw error;
    }
  }

  async #runSteps(context: StepContext, signal: AbortSignal): Promise<void> {
    const { tracked } = context;
    for (let count = 0; count < maxSteps; count += 1) {
      const { record, ...observed } = await observeMachine(context, tracked, { signal });
      const step = planMachine(observed);
      const { vmName } = observed.machine.vm;
      const last = terminal.has(step.kind);
      await this.#parts.beforeStep?.(vmName, last ? "settled" : step.kind);
      if (step.kind === "wait") return this.#retryLater(tracked, step.why);
      try {
        await using _slow = announceIfSlow(context, step, signal);
        const { log } = context;
        const facts = describeFacts(context, vmName);
        await tracked.trace.run({ step, desired: observed.desired, facts, log }, () =>
          applyStep(context, { step, record }, { signal }),
        );
      } catch (error) {
        if (signal.aborted || !background.has(step.kind) || tracked.ending) throw error;
        context.log.warn(
          { step: step.kind, error: getErrorMessage(error) },
          "step after readiness failed; retrying",
        );
        return this.#retryLater(tracked);
      }
      if (last || step.kind === "refuse") return;
    }
    throw new Fault("internal", `plan did not end after ${maxSteps} steps`);
  }

  #retryLater(tracked: TrackedMachine, why = "the registry does not answer"): void {
    if (tracked.ending) throw new Fault("unavailable", why);
    tracked.retryLater = true;
    this.#requeue(tracked);
  }

  #track(pod: Pod): TrackedMachine {
    const key = { namespace: pod.metadata.namespace, name: pod.metadata.name ?? "" };
    const text = keyText(key);
    const known = this.#machines.get(text);
    if (known && known.uid === pod.metadata.uid) return known;
    if (known) throw new Fault("conflict", `the previous pod ${text} is still terminating`);
    const tracked = new TrackedMachine(pod, this.#createWriter(pod), this.#parts.tracer);
    this.#machines.set(text, tracked);
    this.#parts.metrics.vm_table_size.set(this.#machines.size);
    return tracked;
  }

  #forget(tracked: TrackedMachine): void {
    tracked.ended = true;
    tracked.stopProbing();
    this.#machines.delete(keyText(tracked.key));
    this.#parts.metrics.vm_table_size.set(this.#machines.size);
  }

  #createWriter(pod: Pod): PodWriter {
    return new PodWriter(this.#parts.client, pod);
  }

  #createContext(tracked: TrackedMachine): StepContext {
    const { settings, events, log, ...parts } = this.#parts;
    const { set, vm } = readPodMachine(tracked.writer.pod);
    const fields = { pod: keyText(tracked.key), ...(set === "" ? {} : { set }), vm: vm.vmName };
    return {
      ...parts,
      ...settings,
      tracked,
      log: log.child(fields),
      report: this.#report,
      emit: (event) => events.record(referenceTo(podType, tracked.writer.pod), event),
      requeue: () => this.#requeue(tracked),
    };
  }

  async #announceFailure(tracked: TrackedMachine, error: unknown, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return;
    const machine = readPodMachine(tracked.writer.pod);
    const permanent = error instanceof Fault && !error.traits.retry;
    const state = permanent ? "failed" : machine.lifecycle.state || "creating";
    try {
      await tracked.writer.announce({ state, message: getErrorMessage(error).slice(0, 1000) }, { signal });
    } catch (writeError) {
      const fields = { pod: keyText(tracked.key), error: getErrorMessage(writeError) };
      this.#parts.log.warn(fields, "failure not published");
    }
  }

  stop(): void {
    for (const tracked of this.#machines.values()) tracked.stopProbing();
  }
}

/** What a trace of the machine is found by. */
function describeFacts({ tracked: { key }, node }: StepContext, vmName: string): Attributes {
  return {
    "vm.name": vmName,
    "k8s.namespace.name": key.namespace ?? "",
    "k8s.pod.name": key.name,
    "k8s.node.name": node,
  };
}

/** A manifest whose config or blobs the registry does not have: an operator of the registry must restore its storage. */
function reportDamage({ metrics, emit, log }: StepContext, error: Fault): void {
  metrics.snapshot_damaged_total.inc();
  emit({ type: "Warning", reason: "SnapshotDamaged", message: error.message });
  log.error({ error: error.message }, "snapshot in the registry is damaged");
}
