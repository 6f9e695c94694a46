/**
 * VMs by QEMU: the built-in backend of `VmRuntime`. This class is the port's face; each thing it can do is a file of
 * its own. It owns what lives as long as it does: conversations with guests, open consoles, the monitor.
 */
import { Fault, getErrorMessage, type Abortable, type Logger } from "@cocoon/core";
import type { Duplex } from "node:stream";
import { AgentLinks } from "./agent/agent-links.ts";
import {
  assertPermitted,
  type CloneOptions,
  type CloneSpec,
  type ExecRequest,
  type ForkSpec,
  type GcOptions,
  type GcReport,
  type GuestProcess,
  type RemoteCloneSpec,
  type RemoveVmOptions,
  type RunSpec,
  type RuntimeDescription,
  type Snapshot,
  type StopVmOptions,
  type Vm,
  type VmAction,
  type VmAddress,
  type VmEvent,
  type VmImages,
  type VmRuntime,
  type VmSnapshots,
  type VmStats,
} from "@cocoon/vm";
import { withIntent } from "./store/intents.ts";
import { vmFile } from "./store/layout.ts";
import type { VmRecord } from "./store/vm-record.ts";
import { Consoles, newId } from "@cocoon/vm/engine";
import { readConsoleHistory } from "./guest/console-log.ts";
import type { QemuContext } from "./context.ts";
import { cloneVm, runVm } from "./machine/create.ts";
import { findAddress, dialGuest } from "./guest/dial.ts";
import { finishVmMerges } from "./disk/merge-layers.ts";
import { withFaults } from "./fault-border.ts";
import {
  recordFullDisk,
  recordRestart,
  pauseVm,
  removeVm,
  resetVm,
  resumeVm,
  startVm,
  stopVm,
} from "./machine/lifecycle.ts";
import { FullDiskResumer } from "./watch/full-disk-resumer.ts";
import { Monitor } from "./watch/monitor.ts";
import { cloneLazily } from "./lazy/clone-lazily.ts";
import { awaitLoaded, completeLoading } from "./lazy/finish-loading.ts";
import { LoadSupervisor } from "./lazy/load-supervisor.ts";
import { findFuseProblem } from "./lazy/mount.ts";
import { look, operate, show } from "./machine/operate.ts";
import { minimumBytes } from "./machine/request-checks.ts";
import { Readiness } from "./watch/readiness.ts";
import { recoverAll } from "./machine/recover.ts";
import { planSnapshotGc } from "./snapshot/plan-snapshot-gc.ts";
import { assertRestorable, restoreVm } from "./snapshot/restore.ts";
import { saveMachine } from "./snapshot/save.ts";
import { LiveCopies } from "./snapshot/live-copies.ts";
import { QemuSnapshots } from "./snapshot/snapshots.ts";
import { readStats } from "./watch/stats.ts";
import { connectIn } from "@cocoon/vm/host";

const maxHistoryBytes = 8 * 1024 * 1024;

export class QemuRuntime implements VmRuntime {
  readonly snapshots: VmSnapshots;
  readonly images: VmImages;
  readonly #context: QemuContext;
  readonly #links = new AgentLinks();
  readonly #consoles = new Consoles();
  readonly #readiness: Readiness;
  readonly #monitor: Monitor;
  readonly #resumer: FullDiskResumer;
  readonly #loads: LoadSupervisor;
  readonly #copies = new LiveCopies();
  readonly #log: Logger;

  constructor(context: QemuContext) {
    this.#context = context;
    this.#log = context.log;
    this.images = context.images;
    this.snapshots = withFaults(new QemuSnapshots(context, this.#copies));
    this.#readiness = new Readiness(context, this.#links, (id) =>
      this.reset(id, { signal: AbortSignal.timeout(60_000) }),
    );
    this.#loads = new LoadSupervisor(context);
    this.#resumer = new FullDiskResumer(context, (id) => this.#monitor.isDiskFull(id));
    this.#monitor = new Monitor(context, {
      onRunning: (stored) => {
        if (stored.kind === "record") this.#readiness.pursue(stored.record);
      },
      onReset: (id) => void this.#restarted(id),
      onMergeReady: (id) => void this.#mergeReady(id),
      onDiskProblem: (id) => void this.#diskFull(id),
      address: async (id) => this.address(id, { signal: AbortSignal.timeout(5_000) }),
    });
  }

  /** Continues what an earlier process began. */
  async adopt(): Promise<void> {
    await this.#loads.adopt();
  }

  async describe(options: Abortable): Promise<RuntimeDescription> {
    const { host, settings, networks } = this.#context;
    const problem = settings.lazy ? await findFuseProblem(options) : undefined;
    return {
      engine: "qemu",
      hypervisor: "qemu",
      version: host.version,
      accelerator: host.accelerator,
      cpuClass: host.cpuClass,
      networks: [...networks.keys()],
      minimumMemoryBytes: minimumBytes,
      minimumStorageBytes: minimumBytes,
      can: {
        pause: true,
        reset: true,
        exec: true,
        tty: true,
        display: true,
        forward: true,
        restoreStopped: true,
        cloneSizes: ["storageBytes"],
        cloneRemote: problem === "",
      },
      ...(problem ? { whyNotRemote: problem } : {}),
      rootDirectory: settings.rootDirectory,
    };
  }

  async run(spec: RunSpec, options: Abortable): Promise<Vm> {
    return this.#begun(await runVm(this.#context, spec, options));
  }

  async clone(spec: CloneSpec, options: CloneOptions): Promise<Vm> {
    const snapshot = await this.#context.snapshots.find(spec.snapshot);
    const origin = { kind: "snapshot", snapshotId: snapshot.id, snapshotName: snapshot.name } as const;
    const { directory, description } = snapshot;
    await this.#context.snapshots.touch(snapshot, this.#context.now());
    return this.#begun(
      await cloneVm(this.#context, { spec, source: { directory, description, origin } }, options),
    );
  }

  async cloneRemote(spec: RemoteCloneSpec, options: CloneOptions): Promise<Vm> {
    const record = await cloneLazily(this.#context, spec, options);
    this.#loads.watch(record.id);
    return this.#begun(record);
  }

  async fork(spec: ForkSpec, options: Abortable): Promise<Vm> {
    const context = this.#context;
    await awaitLoaded(context, spec.source, options);
    await using work = await context.snapshots.begin("", options);
    const target = { ref: spec.source, action: "fork", signal: options.signal } as const;
    const saved = await operate(context, target, (vm) =>
      saveMachine(context, vm.record, { directory: work.directory, resume: true, signal: options.signal }),
    );
    const origin = { kind: "fork", sourceVmId: saved.record.id, snapshotId: work.id } as const;
    const source = { directory: work.directory, description: saved.description, origin };
    return await this.#begun(await cloneVm(context, { spec, source }, options));
  }

  async start(ref: string, options: Abortable): Promise<Vm> {
    await completeLoading(this.#context, ref, options);
    return this.#begun(await startVm(this.#context, ref, options));
  }

  async stop(ref: string, options: StopVmOptions): Promise<Vm> {
    return this.#shown(await stopVm(this.#context, ref, options));
  }

  async pause(ref: string, options: Abortable): Promise<Vm> {
    return this.#shown(await pauseVm(this.#context, ref, options));
  }

  async resume(ref: string, options: Abortable): Promise<Vm> {
    return this.#begun(await resumeVm(this.#context, ref, options));
  }

  async reset(ref: string, options: Abortable): Promise<Vm> {
    const record = await resetVm(this.#context, ref, options);
    await this.#links.forget(this.#context.store.getDirectory(record.id));
    return this.#begun(record);
  }

  async remove(ref: string, options: RemoveVmOptions): Promise<void> {
    await removeVm(this.#context, ref, options);
  }

  async restore(ref: string, snapshotRef: string, options: Abortable): Promise<Vm> {
    const context = this.#context;
    const snapshot = await context.snapshots.find(snapshotRef);
    const record = await operate(context, { ref, action: "restore", signal: options.signal }, async (vm) => {
      assertRestorable(context, vm.record, snapshot);
      const epoch = newId();
      const epochs: [string, string] = [vm.record.epoch, epoch];
      const intent = { kind: "restore", snapshotId: snapshot.id, epochs } as const;
      return withIntent(vm.directory, intent, () =>
        restoreVm(context, vm.record, { snapshot, epoch, signal: options.signal }),
      );
    });
    return this.#begun(record);
  }

  async list(_options: Abortable): Promise<readonly Vm[]> {
    const all = await this.#context.store.list();
    return Promise.all(all.map(async (stored) => this.#monitor.overlay(await show(this.#context, stored))));
  }

  async inspect(ref: string, _options: Abortable): Promise<Vm> {
    return this.#monitor.overlay(await show(this.#context, await this.#context.store.find(ref)));
  }

  watch({ signal }: Abortable): AsyncIterable<VmEvent> {
    return this.#monitor.watch(signal);
  }

  async waitReady(ref: string, options: Abortable): Promise<Vm> {
    const record = await this.#permitted(ref, "exec");
    return this.#shown(await this.#readiness.wait(record, options));
  }

  async address(ref: string, options: Abortable): Promise<VmAddress | undefined> {
    return findAddress(this.#context, await this.#record(ref), options);
  }

  async dial(ref: string, port: number, options: Abortable): Promise<Duplex> {
    return dialGuest(this.#context, await this.#permitted(ref, "forward"), { port, ...options });
  }

  async stats(ref: string, options: Abortable): Promise<VmStats> {
    return readStats(this.#context, await this.#record(ref), { links: this.#links, signal: options.signal });
  }

  async exec(ref: string, request: ExecRequest, options: Abortable): Promise<GuestProcess> {
    const record = await this.#permitted(ref, "exec");
    if (!record.hasAgent) throw new Fault("notSupported", `the guest of VM ${record.name} has no agent`);
    if (request.argv.length === 0) throw new Fault("invalid", "exec: argv is empty");
    await this.#readiness.wait(record, options);
    return this.#links.exec(this.#context.store.getDirectory(record.id), request, options);
  }

  async openConsole(ref: string, options: Abortable): Promise<Duplex> {
    const record = await this.#permitted(ref, "openConsole");
    return this.#consoles.open(this.#context.store.getDirectory(record.id), options);
  }

  async readConsole(ref: string, options: Abortable & { readonly tailBytes?: number }): Promise<Buffer> {
    const { id } = await this.#context.store.find(ref);
    const tailBytes = Math.min(options.tailBytes ?? maxHistoryBytes, maxHistoryBytes);
    return readConsoleHistory(this.#context.store.getDirectory(id), tailBytes);
  }

  async openDisplay(ref: string, options: Abortable): Promise<Duplex> {
    const record = await this.#permitted(ref, "openDisplay");
    if (!record.machine.display) throw new Fault("notSupported", `VM ${record.name} has no display`);
    return connectIn(this.#context.store.getDirectory(record.id), vmFile.display, options);
  }

  async gc(options: GcOptions): Promise<GcReport> {
    await recoverAll(this.#context, options);
    const removedSnapshots: Snapshot[] = [];
    const all = options.snapshots ? await this.snapshots.list(options) : [];
    for (const snapshot of planSnapshotGc(all, options.snapshots, this.#context.now())) {
      await this.snapshots.remove(snapshot.id, options);
      removedSnapshots.push(snapshot);
    }
    return { images: await this.#context.images.gc(options), removedSnapshots, removedDirectories: [] };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#monitor[Symbol.dispose]();
    this.#consoles[Symbol.dispose]();
    this.#resumer[Symbol.dispose]();
    await this.#loads[Symbol.asyncDispose]();
    await this.#copies[Symbol.asyncDispose]();
    await this.#readiness[Symbol.asyncDispose]();
    await this.#links[Symbol.asyncDispose]();
  }

  /** The guest restarted by itself, and has to be brought to readiness again. */
  async #restarted(id: string): Promise<void> {
    try {
      const record = await recordRestart(this.#context, id);
      await this.#links.forget(this.#context.store.getDirectory(id));
      this.#readiness.pursue(record);
    } catch (error) {
      this.#log.warn({ vm: id, error: getErrorMessage(error) }, "guest restarted, but it could not be noted");
    }
  }

  async #mergeReady(id: string): Promise<void> {
    try {
      using _lock = await this.#context.store.lock(id, { signal: AbortSignal.timeout(60_000) });
      await finishVmMerges(this.#context, id, { signal: AbortSignal.timeout(60_000) });
    } catch (error) {
      this.#log.warn({ vm: id, error: getErrorMessage(error) }, "disk layers stay unmerged for now");
    }
  }

  async #diskFull(id: string): Promise<void> {
    this.#log.error({ vm: id }, "vm frozen: its disk cannot be written; it resumes once there is room");
    this.#resumer.watch(id);
    await recordFullDisk(this.#context, id).catch((error: unknown) => {
      this.#log.warn({ vm: id, error: getErrorMessage(error) }, "vm frozen, but it could not be noted");
    });
  }

  async #record(ref: string): Promise<VmRecord> {
    const { id } = await this.#context.store.find(ref);
    return look(this.#context, await this.#context.store.read(id));
  }

  /** For what needs no lock: the state is observed at, and may change the next moment. */
  async #permitted(ref: string, action: VmAction): Promise<VmRecord> {
    const record = await this.#record(ref);
    assertPermitted(action, record);
    return record;
  }

  #shown(record: VmRecord): Promise<Vm> {
    return show(this.#context, { kind: "record", id: record.id, name: record.name, record });
  }

  /** The guest has just begun to run: see to it that it becomes ready. */
  #begun(record: VmRecord): Promise<Vm> {
    this.#readiness.pursue(record);
    return this.#shown(record);
  }
}
