/**
 * Pods as machines. Every call brings one machine a little closer to what its pod asks for: look, plan one step, do
 * it, look again. Nothing that matters is kept in memory; the pod, the runtime and the registry are.
 */
import { Backoff, Fault, isFault, messageOf, sleep, type Abortable, type Logger } from "@cocoon/core";
import { keyText, pods as podType, type KubeClient, type ObjectKey } from "@cocoon/kube";
import { referenceTo, type EventRecorder } from "@cocoon/kube/controller";
import type { Pod, ReportPod } from "@cocoon/kubelet";
import type { GuestLogin, RestoreMode, VmRuntime } from "@cocoon/vm";
import { readMachine } from "../machine.ts";
import type { VkMetrics } from "../metrics.ts";
import { PodWriter } from "../pod-writer.ts";
import type { Ping } from "../probes/checks.ts";
import type { ProbeTimes } from "../probes/probe.ts";
import type { Snapshots } from "../snapshots.ts";
import { assertCpuClass } from "./cpu-class.ts";
import { deleteMachine } from "./delete.ts";
import { observeMachine } from "./observe.ts";
import { planMachine, type Step } from "./plan.ts";
import { Readiness } from "./readiness.ts";
import { Seat } from "./seat.ts";
import type { StepContext } from "./step-context.ts";
import { applyStep } from "./steps.ts";
import type { StatusFacts } from "./status.ts";

interface ProviderSettings {
  readonly node: string;
  readonly status: StatusFacts;
  readonly cloneRoots: readonly string[];
  readonly login: GuestLogin;
  readonly cpuClass: string;
  readonly probeTimes: ProbeTimes;
  readonly restartPauseMs: number;
  /** Milliseconds that a second of a livenessProbe has. */
  readonly livenessSecondMs: number;
  readonly restoreMode: RestoreMode;
  /** Whose sleep is listed in a ConfigMap of their namespace. */
  readonly snapshotConfigMap: "legacy" | "all";
  readonly macosBin: string;
  /** Whether a save can leave a VM standing still. */
  readonly freezes: boolean;
}

export interface ProviderParts extends Abortable {
  readonly client: KubeClient;
  readonly runtime: VmRuntime;
  readonly snapshots: Snapshots | undefined;
  readonly events: EventRecorder;
  readonly metrics: VkMetrics;
  readonly ping: Ping | undefined;
  readonly log: Logger;
  readonly settings: ProviderSettings;
  /** Tests look at, or end, what happens between two steps. */
  readonly beforeStep?: (vmName: string, step: string) => Promise<void>;
}

/** More steps than any way through the plan has: a plan that goes in circles ends as an error. */
const maxSteps = 40;

/** Steps that make a machine which was not there before; whoever comes back from sleep is announced by the plan. */
const makesNew: ReadonlySet<Step["kind"]> = new Set(["run", "clone", "fork", "cloneFromDir", "decideMode"]);

/** How long making a VM may take until the pod says that it is being made. */
const announceAfterMs = 250;

export class Machines {
  readonly parts: ProviderParts;
  readonly #seats = new Map<string, Seat>();
  readonly #readiness: Readiness;

  constructor(parts: ProviderParts) {
    this.parts = parts;
    this.#readiness = new Readiness({
      ...parts,
      contextOf: (seat) => this.#context(seat),
      before: (vmName, step) => this.#before(vmName, step),
      lookAgain: (vmName) => this.lookAgain(vmName),
    });
  }

  onPodStatus(report: ReportPod): void {
    this.#readiness.report = report;
  }

  seatOf(key: ObjectKey): Seat | undefined {
    return this.#seats.get(keyText(key));
  }

  seats(): Iterable<Seat> {
    return this.#seats.values();
  }

  /** What the kubelet compares with: a pod whose last attempt failed looks different, so it is handed over again. */
  tracked(seat: Seat): Pod {
    const { pod } = seat.writer;
    if (!seat.failed) return pod;
    const annotations = { ...pod.metadata.annotations, "cocoonstack.io/last-attempt": "failed" };
    return { ...pod, metadata: { ...pod.metadata, annotations } };
  }

  async bring(pod: Pod, { signal }: Abortable): Promise<void> {
    readMachine(pod);
    const seat = this.#take(pod);
    await seat.exclusively(async () => {
      seat.writer = this.#writer(pod);
      try {
        assertCpuClass(pod, this.parts.settings.cpuClass);
        await this.#settle(seat, signal);
        seat.failed = false;
      } catch (error) {
        seat.failed = true;
        // Nobody knows when the next attempt comes: a copy that the guest may have left behind is not used again.
        seat.saved.id = undefined;
        await this.#tellFailure(seat, error, signal);
        throw error;
      }
    });
  }

  async end(pod: Pod, options: Abortable): Promise<void> {
    // A pod that never was a machine has nothing to end; one whose annotations were damaged is ended as it was.
    const known = this.seatOf({ namespace: pod.metadata.namespace, name: pod.metadata.name ?? "" });
    const readable = isMachine(pod) ? pod : known?.writer.pod;
    if (!readable || !isMachine(readable)) return;
    const seat = this.#take(readable);
    await seat.exclusively(async () => {
      seat.writer = this.#writer(readable);
      seat.failed = true;
      seat.saved.id = undefined;
      await deleteMachine(this.#context(seat), (name, step) => this.#before(name, step), options);
      seat.ended = true;
      seat.stopProbing();
      this.#seats.delete(keyText(seat.key));
      this.parts.metrics.tableSize.set(this.#seats.size);
    });
  }

  /** Something happened to a VM: its machine is looked at again, until that succeeds. */
  lookAgain(vmName: string): void {
    for (const seat of this.#seats.values())
      if (readMachine(seat.writer.pod).vm.vmName === vmName) void this.#untilSettled(seat);
  }

  async #untilSettled(seat: Seat): Promise<void> {
    const { signal, log } = this.parts;
    const backoff = new Backoff({ baseMs: 500, maxMs: 15_000 });
    while (!signal.aborted && !seat.ended) {
      try {
        await seat.exclusively(async () => {
          if (!seat.ended) await this.#settle(seat, signal);
        });
        return;
      } catch (error) {
        if (signal.aborted) return;
        log.warn({ pod: keyText(seat.key), error: messageOf(error) }, "machine not settled; trying again");
        await sleep(backoff.nextMs(), { signal });
      }
    }
  }

  #take(pod: Pod): Seat {
    const key = { namespace: pod.metadata.namespace, name: pod.metadata.name ?? "" };
    const text = keyText(key);
    const there = this.#seats.get(text);
    if (there && there.uid === pod.metadata.uid) return there;
    if (there) throw new Fault("conflict", `the pod ${text} before this one is still being ended`);
    const seat = new Seat(pod, this.#writer(pod));
    this.#seats.set(text, seat);
    this.parts.metrics.tableSize.set(this.#seats.size);
    return seat;
  }

  #writer(pod: Pod): PodWriter {
    return new PodWriter(this.parts.client, pod);
  }

  #context(seat: Seat): StepContext {
    const { parts } = this;
    return {
      ...parts,
      node: parts.settings.node,
      freezes: parts.settings.freezes,
      saved: seat.saved,
      writer: seat.writer,
      cloneRoots: parts.settings.cloneRoots,
      login: parts.settings.login,
      restoreMode: parts.settings.restoreMode,
      snapshotConfigMap: parts.settings.snapshotConfigMap,
      macosBin: parts.settings.macosBin,
      tell: (event) => parts.events.record(referenceTo(podType, seat.writer.pod), event),
    };
  }

  async #before(vmName: string, step: string): Promise<void> {
    await this.parts.beforeStep?.(vmName, step);
  }

  /** Steps until nothing is left to do, then shows how it is. */
  async #settle(seat: Seat, signal: AbortSignal): Promise<void> {
    const context = this.#context(seat);
    for (let count = 0; count < maxSteps; count += 1) {
      const machine = readMachine(seat.writer.pod);
      const seen = await observeMachine(context, machine, { signal });
      const step = planMachine(seen);
      if (step.kind === "settled" || step.kind === "adoptStatic") {
        await this.#before(machine.vm.vmName, "settled");
        return this.#readiness.show(seat, seen.record, signal);
      }
      if (step.kind === "refuse" && step.reason === "VMGone") return this.#readiness.showGone(seat, step);
      if (step.kind === "start") await this.#pauseBeforeStart(seat, signal);
      await this.#before(machine.vm.vmName, step.kind);
      // Whoever reads the annotation and looks at the pod then finds its status the same.
      if (isFallenAsleep(step)) await this.#readiness.showAsleep(seat, { signal });
      await using _slow = makesNew.has(step.kind) ? this.#announceIfSlow(seat, signal) : undefined;
      await applyStep(context, step, { signal });
      this.#tellStep(context, step);
    }
    throw new Fault("internal", `no end after ${maxSteps} steps`);
  }

  /** People who wait for a new machine are told that it is being made; one that is quick speaks for itself. */
  #announceIfSlow(seat: Seat, signal: AbortSignal): AsyncDisposable {
    let written = Promise.resolve();
    const announce = async (): Promise<void> => {
      try {
        await seat.writer.announce({ state: "creating" }, { signal });
      } catch (error) {
        this.parts.log.warn({ pod: keyText(seat.key), error: messageOf(error) }, "creation not announced");
      }
    };
    const isNew = readMachine(seat.writer.pod).lifecycle.state === "";
    const timer = isNew ? setTimeout(() => void (written = announce()), announceAfterMs) : undefined;
    return {
      [Symbol.asyncDispose]: () => {
        clearTimeout(timer);
        return written; // whatever is said next is said after it
      },
    };
  }

  #tellStep({ tell }: StepContext, step: Step): void {
    if (isFallenAsleep(step))
      tell({
        type: "Normal",
        reason: "Hibernated",
        message: "the machine sleeps; its VM is gone from the node",
      });
    if (step.kind === "restore")
      tell({ type: "Normal", reason: "Woken", message: `restored from ${step.snapshot.digest}` });
  }

  /** A guest that powers off again and again is not started in a tight circle. */
  async #pauseBeforeStart(seat: Seat, signal: AbortSignal): Promise<void> {
    const waitMs = seat.lastStartMs + this.parts.settings.restartPauseMs - performance.now();
    if (waitMs > 0) await sleep(waitMs, { signal });
    seat.lastStartMs = performance.now();
    seat.restarts += 1;
  }

  async #tellFailure(seat: Seat, error: unknown, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return;
    const machine = readMachine(seat.writer.pod);
    const permanent = error instanceof Fault && !error.traits.retry;
    const state = permanent ? "failed" : machine.lifecycle.state || "creating";
    try {
      await seat.writer.announce({ state, message: messageOf(error).slice(0, 1000) }, { signal });
    } catch (writeError) {
      this.parts.log.warn({ pod: keyText(seat.key), error: messageOf(writeError) }, "failure not published");
    }
  }

  stop(): void {
    for (const seat of this.#seats.values()) seat.stopProbing();
  }
}

function isFallenAsleep(step: Step): boolean {
  return step.kind === "announce" && step.state === "hibernated";
}

function isMachine(pod: Pod): boolean {
  try {
    readMachine(pod);
    return true;
  } catch (error) {
    if (isFault(error, "invalid")) return false;
    throw error;
  }
}
