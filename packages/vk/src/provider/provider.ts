/**
 * Pods as machines. Every call brings one machine a little closer to what its pod asks for: look, plan one step, do
 * it, look again. Nothing that matters is kept in memory; the pod, the runtime and the registry are.
 */
import { Backoff, Fault, isFault, messageOf, sleep, type Abortable, type Logger } from "@cocoon/core";
import { keyText, pods as podType, type KubeClient, type ObjectKey } from "@cocoon/kube";
import { referenceTo, type EventRecorder } from "@cocoon/kube/controller";
import type { Pod, PodStatus } from "@cocoon/kubelet";
import type { GuestLogin, Vm, VmRuntime } from "@cocoon/vm";
import { readMachine } from "../machine.ts";
import type { VkMetrics } from "../metrics.ts";
import { PodWriter } from "../pod-writer.ts";
import { checkMachine, type CheckResult, type Ping } from "../probes/checks.ts";
import { probe, type ProbeTimes } from "../probes/probe.ts";
import type { Snapshots } from "../snapshots.ts";
import { assertCpuClass } from "./cpu-class.ts";
import { deleteMachine } from "./delete.ts";
import { observeMachine } from "./observe.ts";
import { planMachine, type Step } from "./plan.ts";
import { Seat } from "./seat.ts";
import { applyStep, dropLocal, type StepContext } from "./steps.ts";
import { statusOf, type Showing, type StatusFacts } from "./status.ts";

export interface ProviderSettings {
  readonly node: string;
  readonly status: StatusFacts;
  readonly cloneRoots: readonly string[];
  readonly login: GuestLogin;
  readonly cpuClass: string;
  readonly probeTimes: ProbeTimes;
  readonly restartPauseMs: number;
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

type Report = (
  key: ObjectKey,
  uid: string,
  status: PodStatus,
  written?: () => void,
) => void;

/** More steps than any way through the plan has: a plan that goes in circles ends as an error. */
const maxSteps = 40;

export class Machines {
  readonly parts: ProviderParts;
  readonly #seats = new Map<string, Seat>();
  #report: Report = () => undefined;

  constructor(parts: ProviderParts) {
    this.parts = parts;
  }

  onPodStatus(report: Report): void {
    this.#report = report;
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
    const backoff = new Backoff({ baseMs: 500, maxMs: 30_000 });
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
      writer: seat.writer,
      cloneRoots: parts.settings.cloneRoots,
      login: parts.settings.login,
      tell: (event) =>
        parts.events.record(referenceTo(podType, seat.writer.pod as never), event),
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
        return this.#show(seat, seen.record, signal);
      }
      if (step.kind === "refuse" && step.reason === "VMGone") return this.#showGone(seat, step);
      if (step.kind === "start") await this.#pauseBeforeStart(seat, signal);
      await this.#before(machine.vm.vmName, step.kind);
      await applyStep(context, step, { signal });
      this.#tellStep(context, step);
    }
    throw new Fault("internal", `no end after ${maxSteps} steps`);
  }

  #tellStep({ tell }: StepContext, step: Step): void {
    if (step.kind === "announce" && step.state === "hibernated")
      tell({ type: "Normal", reason: "Hibernated", message: "the machine sleeps; its VM is gone from the node" });
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
    const state = permanent || machine.lifecycle.state === "" ? "failed" : machine.lifecycle.state;
    try {
      await seat.writer.announce({ state, message: messageOf(error).slice(0, 1000) }, { signal });
    } catch (writeError) {
      this.parts.log.warn({ pod: keyText(seat.key), error: messageOf(writeError) }, "failure not published");
    }
  }

  #showGone(seat: Seat, { reason, message }: { readonly reason: string; readonly message: string }): void {
    seat.stopProbing();
    this.#context(seat).tell({ type: "Warning", reason, message });
    this.#publish(seat, { kind: "ended", reason, message });
  }

  async #show(seat: Seat, vm: Vm | undefined, signal: AbortSignal): Promise<void> {
    const machine = readMachine(seat.writer.pod);
    if (!machine.vm.managed) {
      const startedAt = seat.writer.pod.metadata.creationTimestamp ?? "";
      const message = "static machine";
      this.#publish(seat, { kind: "live", ip: machine.ip, ready: true, message, startedAt, restarts: 0, vmId: "" });
      await seat.writer.announce({ state: "ready" }, { signal });
      return;
    }
    if (!vm) {
      seat.stopProbing();
      return this.#publish(seat, { kind: "asleep" });
    }
    const identity = `${vm.id} ${vm.epoch}`;
    if (seat.probed !== identity) this.#startProbe(seat, vm, identity);
    else if (seat.showing?.kind === "live" && seat.showing.ready) await this.#publishReady(seat, vm, signal);
  }

  #startProbe(seat: Seat, vm: Vm, identity: string): void {
    seat.stopProbing();
    seat.probing = new AbortController();
    seat.probed = identity;
    const { parts } = this;
    const signal = AbortSignal.any([seat.probing.signal, parts.signal]);
    void probe({
      times: parts.settings.probeTimes,
      signal,
      check: (options) => this.#check(seat, vm.id, options),
      onChange: (result) =>
        seat.exclusively(() =>
          seat.probed === identity && !seat.ended ? this.#onReadiness(seat, vm, result) : Promise.resolve(),
        ),
    });
  }

  async #check(seat: Seat, vmId: string, options: Abortable): Promise<CheckResult> {
    const { runtime, ping, metrics } = this.parts;
    const took = metrics.probeSeconds.startTimer();
    try {
      const [vm, address] = await Promise.all([
        runtime.inspect(vmId, options),
        runtime.address(vmId, options),
      ]);
      const { probePort } = readMachine(seat.writer.pod);
      if (vm.state !== "running") return { ok: false, message: `vm ${vm.state}` };
      return await checkMachine({ runtime, vm, address, probePort, ping }, options);
    } catch (error) {
      if (isFault(error, "notFound")) return { ok: false, message: "vm gone" };
      throw error;
    } finally {
      took();
    }
  }

  async #onReadiness(seat: Seat, vm: Vm, result: CheckResult): Promise<void> {
    const { signal, runtime, log } = this.parts;
    try {
      const ip = (await runtime.address(vm.id, { signal }))?.ip ?? "";
      const startedAt = (vm.startedAt ?? vm.createdAt).replace(/\.\d+Z$/, "Z");
      const { restarts } = seat;
      const showing = { kind: "live" as const, ip, startedAt, restarts, vmId: vm.id };
      await this.#publishWritten(seat, { ...showing, ready: result.ok, message: result.message }, signal);
      if (result.ok) await this.#publishReady(seat, vm, signal);
      else await seat.writer.recordVm({ vmId: vm.id, ip }, { signal });
    } catch (error) {
      if (!signal.aborted)
        log.warn({ pod: keyText(seat.key), error: messageOf(error) }, "readiness not published");
      seat.probed = "";
      this.lookAgain(vm.name);
    }
  }

  /** `ready` with the address in one patch, after the status; then what the machine slept in is dropped. */
  async #publishReady(seat: Seat, vm: Vm, signal: AbortSignal): Promise<void> {
    const ip = seat.showing?.kind === "live" ? seat.showing.ip : "";
    const { writer } = seat;
    await writer.announce({ state: "ready", more: writer.vmTexts({ vmId: vm.id, ip }) }, { signal });
    if (seat.finished === vm.id) return;
    seat.finished = vm.id;
    void this.#finishWake(seat, vm);
  }

  /** Only a machine that is ready again may lose the snapshot it came from; until that worked it is tried again. */
  async #finishWake(seat: Seat, vm: Vm): Promise<void> {
    const { signal, snapshots, log } = this.parts;
    const backoff = new Backoff({ baseMs: 1_000, maxMs: 60_000 });
    while (!signal.aborted && !seat.ended && seat.finished === vm.id) {
      try {
        await seat.exclusively(async () => {
          const machine = readMachine(seat.writer.pod);
          if (seat.ended || machine.sleep || seat.finished !== vm.id) return;
          await this.#before(vm.name, "dropTag");
          const left = await snapshots?.sleeping(vm.name, { signal });
          if (left) await snapshots?.drop(vm.name, left.digest, { signal });
          await this.#before(vm.name, "clearDigest");
          await dropLocal(this.#context(seat), vm.name, { signal });
          await seat.writer.recordDigest(null, { signal });
        });
        return;
      } catch (error) {
        log.warn({ vm: vm.name, error: messageOf(error) }, "old snapshot not dropped; trying again");
        await sleep(backoff.nextMs(), { signal });
      }
    }
  }

  #publish(seat: Seat, showing: Showing): void {
    seat.showing = showing;
    this.#report(seat.key, seat.uid, statusOf(seat.writer.pod, showing, this.parts.settings.status));
  }

  #publishWritten(seat: Seat, showing: Showing, signal: AbortSignal): Promise<void> {
    seat.showing = showing;
    const status = statusOf(seat.writer.pod, showing, this.parts.settings.status);
    return new Promise((resolve, reject) => {
      const give = () => reject(new Fault("unavailable", "stopped before the status was written"));
      signal.addEventListener("abort", give, { once: true });
      this.#report(seat.key, seat.uid, status, () => {
        signal.removeEventListener("abort", give);
        resolve();
      });
    });
  }

  stop(): void {
    for (const seat of this.#seats.values()) seat.stopProbing();
  }
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
