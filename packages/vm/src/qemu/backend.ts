/**
 * VMs by QEMU: the built-in backend of `VmRuntime`. This class is the port's face; each thing it can do is a file of
 * its own. It owns what lives as long as it does: conversations with guests, open consoles, the monitor.
 */
import { Fault, messageOf, type Abortable, type Logger } from "@cocoon/core";
import type { Duplex } from "node:stream";
import { AgentLinks } from "../agent/agent-links.ts";
import type {
  CloneSpec,
  ExecRequest,
  ForkSpec,
  GcReport,
  GuestProcess,
  RemoveVmOptions,
  RunSpec,
  RuntimeDescription,
  StopVmOptions,
  VmEvent,
  VmImages,
  VmRuntime,
  VmSnapshots,
} from "../runtime.ts";
import { assertPermitted, type VmAction } from "../state.ts";
import { withIntent } from "../store/intents.ts";
import { vmFile } from "../store/layout.ts";
import type { VmRecord } from "../store/vm-record.ts";
import type { Vm, VmAddress, VmStats } from "../vm.ts";
import { Consoles, readConsoleHistory } from "./console.ts";
import type { QemuContext } from "./context.ts";
import { cloneVm, runVm } from "./create.ts";
import { addressOf, dialGuest } from "./dial.ts";
import { withFaults } from "./fault-border.ts";
import {
  noteDiskTrouble,
  noteRestart,
  pauseVm,
  removeVm,
  resetVm,
  resumeVm,
  startVm,
  stopVm,
} from "./lifecycle.ts";
import { Monitor } from "./monitor.ts";
import { look, operate, show } from "./operate.ts";
import { Readiness } from "./readiness.ts";
import { recoverAll } from "./recover.ts";
import { assertRestorable, restoreVm } from "./restore.ts";
import { saveMachine } from "./save.ts";
import { QemuSnapshots } from "./snapshots.ts";
import { readStats } from "./stats.ts";
import { connectIn } from "./unix-socket.ts";

const maxHistoryBytes = 8 * 1024 * 1024;

export class QemuRuntime implements VmRuntime {
  readonly snapshots: VmSnapshots;
  readonly images: VmImages;
  readonly #context: QemuContext;
  readonly #links = new AgentLinks();
  readonly #consoles = new Consoles();
  readonly #readiness: Readiness;
  readonly #monitor: Monitor;
  readonly #log: Logger;

  constructor(context: QemuContext) {
    this.#context = context;
    this.#log = context.log;
    this.images = context.images;
    this.snapshots = withFaults(new QemuSnapshots(context));
    this.#readiness = new Readiness(context, this.#links);
    this.#monitor = new Monitor(context, {
      onRunning: (stored) => {
        if (stored.kind === "record") this.#readiness.pursue(stored.record);
      },
      onReset: (id) => void this.#restarted(id),
      onDiskTrouble: (id) => void this.#starved(id),
      address: async (id) => this.address(id, { signal: AbortSignal.timeout(5_000) }),
    });
  }

  describe(_options: Abortable): Promise<RuntimeDescription> {
    const { host, settings, networks } = this.#context;
    return Promise.resolve({
      hypervisor: "qemu",
      version: host.version,
      accelerator: host.accelerator,
      cpuClass: host.cpuClass,
      networks: [...networks.keys()],
      minimumMemoryBytes: settings.minimum.memoryBytes,
      minimumStorageBytes: settings.minimum.storageBytes,
      can: {
        pause: true,
        reset: true,
        exec: true,
        tty: true,
        display: true,
        forward: true,
        restoreStopped: true,
      },
      rootDirectory: settings.rootDirectory,
    });
  }

  async run(spec: RunSpec, options: Abortable): Promise<Vm> {
    return this.#begun(await runVm(this.#context, spec, options));
  }

  async clone(spec: CloneSpec, options: Abortable): Promise<Vm> {
    const snapshot = await this.#context.snapshots.find(spec.snapshot);
    const origin = { kind: "snapshot", snapshotId: snapshot.id, snapshotName: snapshot.name } as const;
    const { directory, description } = snapshot;
    return this.#begun(
      await cloneVm(this.#context, { spec, source: { directory, description, origin } }, options),
    );
  }

  async fork(spec: ForkSpec, options: Abortable): Promise<Vm> {
    const context = this.#context;
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
    await this.#links.forget(this.#context.store.directoryOf(record.id));
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
      const intent = { kind: "restore", snapshotId: snapshot.id } as const;
      return withIntent(vm.directory, intent, () =>
        restoreVm(context, vm.record, { snapshot, signal: options.signal }),
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
    return addressOf(this.#context, await this.#record(ref), options);
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
    return this.#links.exec(this.#context.store.directoryOf(record.id), request, options);
  }

  async openConsole(ref: string, options: Abortable): Promise<Duplex> {
    const record = await this.#permitted(ref, "openConsole");
    return this.#consoles.open(this.#context.store.directoryOf(record.id), options);
  }

  async readConsole(ref: string, options: Abortable & { readonly tailBytes?: number }): Promise<Buffer> {
    const { id } = await this.#context.store.find(ref);
    const tailBytes = Math.min(options.tailBytes ?? maxHistoryBytes, maxHistoryBytes);
    return readConsoleHistory(this.#context.store.directoryOf(id), tailBytes);
  }

  async openDisplay(ref: string, options: Abortable): Promise<Duplex> {
    const record = await this.#permitted(ref, "openDisplay");
    if (!record.machine.display) throw new Fault("notSupported", `VM ${record.name} has no display`);
    return connectIn(this.#context.store.directoryOf(record.id), vmFile.display, options);
  }

  async gc(options: Abortable): Promise<GcReport> {
    await recoverAll(this.#context, options);
    return { images: await this.#context.images.gc(options), removedDirectories: [] };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#monitor[Symbol.dispose]();
    this.#consoles[Symbol.dispose]();
    await this.#readiness[Symbol.asyncDispose]();
    await this.#links[Symbol.asyncDispose]();
  }

  /** The guest restarted by itself, and has to be brought to readiness again. */
  async #restarted(id: string): Promise<void> {
    try {
      const record = await noteRestart(this.#context, id);
      await this.#links.forget(this.#context.store.directoryOf(id));
      this.#readiness.pursue(record);
    } catch (error) {
      this.#log.warn({ vm: id, error: messageOf(error) }, "guest restarted, but it could not be noted");
    }
  }

  async #starved(id: string): Promise<void> {
    this.#log.error({ vm: id }, "vm frozen: its disk cannot be written; make room and resume it");
    await noteDiskTrouble(this.#context, id).catch((error: unknown) => {
      this.#log.warn({ vm: id, error: messageOf(error) }, "vm frozen, but it could not be noted");
    });
  }

  async #record(ref: string): Promise<VmRecord> {
    const { id } = await this.#context.store.find(ref);
    return look(this.#context, await this.#context.store.read(id));
  }

  /** For what needs no lock: the state is looked at, and may change the next moment. */
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
