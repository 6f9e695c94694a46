/** Shows how a machine is: probes it, reports the pod's status, publishes `ready`, and ends a wake. */
import { annotation } from "@cocoon/contract";
import { Backoff, isFault, messageOf, orAborted, sleep, type Abortable } from "@cocoon/core";
import { keyText } from "@cocoon/kube";
import type { PodReport, ReportPod } from "@cocoon/kubelet";
import type { Vm } from "@cocoon/vm";
import { readMachine } from "../machine.ts";
import { checkMachine, type CheckResult } from "../probes/checks.ts";
import { probe } from "../probes/probe.ts";
import { keepAlive } from "./keep-alive.ts";
import { dropLocal } from "./local-snapshot.ts";
import type { ProviderParts } from "./provider.ts";
import type { Seat } from "./seat.ts";
import { isOurs } from "./plan-delete.ts";
import { prepareGuest } from "./prepare-guest.ts";
import { unlistAwake } from "./snapshot-list.ts";
import { statusOf, type Showing } from "./status.ts";
import type { StepContext } from "./step-context.ts";

interface ReadinessParts extends ProviderParts {
  readonly contextOf: (seat: Seat) => StepContext;
  readonly before: (vmName: string, step: string) => Promise<void>;
  readonly lookAgain: (vmName: string) => void;
}

export class Readiness {
  readonly #parts: ReadinessParts;
  report: ReportPod = () => Promise.resolve();

  constructor(parts: ReadinessParts) {
    this.#parts = parts;
  }

  showGone(seat: Seat, { reason, message }: { readonly reason: string; readonly message: string }): void {
    seat.stopProbing();
    this.#parts.contextOf(seat).tell({ type: "Warning", reason, message });
    void this.#publish(seat, { kind: "ended", reason, message });
  }

  async show(seat: Seat, vm: Vm | undefined, signal: AbortSignal): Promise<void> {
    const machine = readMachine(seat.writer.pod);
    if (!machine.vm.managed) {
      await orAborted(this.#publish(seat, staticShowing(seat, machine.ip)), { signal });
      await seat.writer.announce({ state: "ready" }, { signal });
      return;
    }
    if (!vm) {
      void this.showAsleep(seat, { signal });
      return;
    }
    const identity = `${vm.id} ${vm.epoch}`;
    if (seat.probed !== identity) this.#startProbe(seat, vm, identity);
    else if (seat.showing?.kind === "live" && seat.showing.ready) await this.#publishReady(seat, vm, signal);
  }

  async showAsleep(seat: Seat, options: Abortable): Promise<void> {
    seat.stopProbing();
    await orAborted(this.#publish(seat, { kind: "asleep" }), options);
  }

  #startProbe(seat: Seat, vm: Vm, identity: string): void {
    if (seat.showing === undefined && readMachine(seat.writer.pod).vmId === vm.id) this.#adopt(seat, vm);
    seat.stopProbing();
    seat.probing = new AbortController();
    seat.probed = identity;
    const parts = this.#parts;
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

  /** A VM that an earlier process made; what that one did not finish is gone on with. */
  #adopt(seat: Seat, vm: Vm): void {
    const { log, signal } = this.#parts;
    log.info({ pod: keyText(seat.key), vm: vm.name, id: vm.id }, "machine adopted");
    if (seat.writer.pod.metadata.annotations?.[annotation.postCloneState] === "running")
      void prepareGuest(this.#parts.contextOf(seat), { vm, cloned: true }, { signal });
  }

  async #check(seat: Seat, vmId: string, options: Abortable): Promise<CheckResult> {
    const { runtime, ping, metrics } = this.#parts;
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
    const { signal, runtime, log } = this.#parts;
    try {
      const ip = (await runtime.address(vm.id, { signal }))?.ip ?? "";
      const startedAt = (vm.startedAt ?? vm.createdAt).replace(/\.\d+Z$/, "Z");
      const { restarts } = seat;
      const live = { kind: "live" as const, ip, startedAt, restarts, vmId: vm.id };
      const { ok: ready, message } = result;
      const { writer } = seat;
      const isNew = readMachine(writer.pod).lifecycle.state === "";
      // One write for both: who sees `ready` on the pod sees its status as well.
      const changes = writer.changesOf({
        ...writer.vmTexts({ vmId: vm.id, ip }),
        ...(ready || isNew ? writer.lifecycleTexts({ state: ready ? "ready" : "creating" }) : {}),
      });
      await orAborted(this.#publish(seat, { ...live, ready, message }, changes), { signal });
      writer.took(changes);
      if (ready) await this.#publishReady(seat, vm, signal);
    } catch (error) {
      if (!signal.aborted)
        log.warn({ pod: keyText(seat.key), error: messageOf(error) }, "readiness not published");
      seat.probed = "";
      this.#parts.lookAgain(vm.name);
    }
  }

  /** `ready` where it is not written yet; then what the machine slept in is dropped. */
  async #publishReady(seat: Seat, vm: Vm, signal: AbortSignal): Promise<void> {
    const ip = seat.showing?.kind === "live" ? seat.showing.ip : "";
    const { writer } = seat;
    await writer.announce({ state: "ready", more: writer.vmTexts({ vmId: vm.id, ip }) }, { signal });
    if (seat.probing && !seat.keptAlive) {
      seat.keptAlive = true;
      const watched = { vm, signal: AbortSignal.any([seat.probing.signal, this.#parts.signal]) };
      keepAlive(this.#parts, seat, watched);
    }
    if (seat.finished === vm.id) return;
    seat.finished = vm.id;
    void this.#finishWake(seat, vm);
  }

  /** Only a machine that is ready again may lose the snapshot it came from; until that worked it is tried again. */
  async #finishWake(seat: Seat, vm: Vm): Promise<void> {
    const { signal, snapshots, log } = this.#parts;
    const backoff = new Backoff({ baseMs: 1_000, maxMs: 60_000 });
    while (!signal.aborted && !seat.ended && seat.finished === vm.id) {
      try {
        await seat.exclusively(async () => {
          const machine = readMachine(seat.writer.pod);
          if (seat.ended || machine.sleep || seat.finished !== vm.id) return;
          await this.#parts.before(vm.name, "dropTag");
          const left = await snapshots?.sleeping(vm.name, { signal });
          if (left && isOurs(left, machine.recordedDigest, this.#parts.settings.node))
            await snapshots?.drop(vm.name, left.digest, { signal });
          await this.#parts.before(vm.name, "clearDigest");
          const context = this.#parts.contextOf(seat);
          await dropLocal(context, vm.name, { signal });
          await unlistAwake(context, { signal });
          await seat.writer.recordDigest(null, { signal });
        });
        return;
      } catch (error) {
        log.warn({ vm: vm.name, error: messageOf(error) }, "old snapshot not dropped; trying again");
        await sleep(backoff.nextMs(), { signal });
      }
    }
  }

  #publish(seat: Seat, showing: Showing, annotations: PodReport["annotations"] = {}): Promise<void> {
    seat.showing = showing;
    const status = statusOf(seat.writer.pod, showing, this.#parts.settings.status);
    return this.report(seat.key, seat.uid, { status, annotations });
  }
}

/** Nobody here may look into a machine of somebody else: it counts as ready. */
function staticShowing(seat: Seat, ip: string): Showing {
  const startedAt = seat.writer.pod.metadata.creationTimestamp ?? "";
  return { kind: "live", ip, ready: true, message: "static machine", startedAt, restarts: 0, vmId: "" };
}
