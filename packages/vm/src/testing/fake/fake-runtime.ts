/** `VmRuntime` in memory, over a `FakeHost`: for tests of everything that stands on the port. */
import { duplexPair, PassThrough, type Duplex } from "node:stream";
import { Fault, sleep, type Abortable } from "@cocoon/core";
import { EventQueue } from "../../events/event-queue.ts";
import { eventsBetween } from "../../events/vm-events.ts";
import type {
  GcReport,
  GuestProcess,
  RuntimeDescription,
  VmEvent,
  VmImages,
  VmRuntime,
} from "../../runtime.ts";
import type {
  CloneOptions,
  CloneSpec,
  ExecRequest,
  ForkSpec,
  RemoveVmOptions,
  RunSpec,
  StopVmOptions,
} from "../../requests.ts";
import { assertPermitted, type VmAction } from "../../state.ts";
import { assertVmName } from "../../ids.ts";
import type { Vm, VmAddress, VmStats } from "../../vm.ts";
import type { FakeHost, FakeVm } from "./fake-host.ts";
import { checkedConfig, fakeImages, minimumBytes } from "./fake-images.ts";
import { onLines, runProgram, FakeProcess } from "./fake-process.ts";
import { FakeSnapshots } from "./fake-snapshots.ts";

export class FakeRuntime implements VmRuntime {
  readonly snapshots: FakeSnapshots;
  readonly images: VmImages;
  readonly #host: FakeHost;
  readonly #stop = new AbortController();

  constructor(host: FakeHost) {
    this.#host = host;
    this.snapshots = new FakeSnapshots(host);
    this.images = fakeImages(host);
  }

  async describe({ signal }: Abortable): Promise<RuntimeDescription> {
    await this.#host.enter("describe", signal);
    return {
      engine: this.#host.engine,
      hypervisor: "qemu",
      version: "0.0.0",
      accelerator: "tcg",
      cpuClass: "fake",
      networks: ["user"],
      minimumMemoryBytes: minimumBytes,
      minimumStorageBytes: minimumBytes,
      can: {
        pause: true,
        reset: true,
        exec: true,
        tty: true,
        display: false,
        forward: true,
        restoreStopped: true,
        cloneSizes: ["storageBytes"],
      },
      rootDirectory: this.#host.directory,
    };
  }

  async run(spec: RunSpec, { signal }: Abortable): Promise<Vm> {
    await this.#host.enter("run", signal);
    assertVmName(spec.name);
    const image = await this.images.inspect(spec.image, { signal });
    const entry = this.#host.add(
      newVm(spec.name, { config: checkedConfig(spec, image), origin: { kind: "image", image: spec.image } }),
    );
    return spec.start === false ? this.#host.change(entry, { state: "created" }) : this.#host.begin(entry);
  }

  async clone(spec: CloneSpec, { signal, beforeRun }: CloneOptions): Promise<Vm> {
    await this.#host.enter("clone", signal);
    assertVmName(spec.name);
    const snapshot = this.snapshots.find(spec.snapshot);
    const { config } = snapshot;
    for (const [what, asked, has] of [
      ["cpu", spec.cpus, config.cpus],
      ["memory", spec.memoryBytes, config.memoryBytes],
      ["storage", spec.storageBytes, config.storageBytes],
    ] as const)
      if (asked !== undefined && asked < has)
        throw new Fault("invalid", `--${what} ${asked} below snapshot minimum ${has}`);
    const origin = { kind: "snapshot", snapshotId: snapshot.id, snapshotName: snapshot.name } as const;
    const { storageBytes = config.storageBytes, labels = {} } = spec;
    const made = newVm(spec.name, { config: { ...config, storageBytes, labels }, origin });
    const entry = this.#host.add(made, await this.snapshots.readState(snapshot.id));
    try {
      await beforeRun?.({ signal });
    } catch (error) {
      this.#host.remove(entry);
      throw error;
    }
    return this.#host.begin(entry);
  }

  async fork(spec: ForkSpec, { signal }: Abortable): Promise<Vm> {
    await this.#host.enter("fork", signal);
    assertVmName(spec.name);
    const { vm, guest } = this.#permitted(spec.source, "fork").entry;
    const origin = { kind: "fork", sourceVmId: vm.id, snapshotId: "" } as const;
    const made = newVm(spec.name, { config: { ...vm.config, labels: spec.labels ?? {} }, origin });
    return this.#host.begin(this.#host.add(made, guest.save()));
  }

  async start(ref: string, { signal }: Abortable): Promise<Vm> {
    await this.#host.enter("start", signal);
    const { entry, mustAct } = this.#permitted(ref, "start");
    return mustAct ? this.#host.begin(entry) : entry.vm;
  }

  async stop(ref: string, { signal }: StopVmOptions): Promise<Vm> {
    await this.#host.enter("stop", signal);
    const { entry, mustAct } = this.#permitted(ref, "stop");
    return mustAct ? this.#host.end(entry, "stopped") : entry.vm;
  }

  async pause(ref: string, { signal }: Abortable): Promise<Vm> {
    await this.#host.enter("pause", signal);
    const { entry, mustAct } = this.#permitted(ref, "pause");
    entry.guest.freeze();
    return mustAct ? this.#host.change(entry, { state: "paused" }) : entry.vm;
  }

  async resume(ref: string, { signal }: Abortable): Promise<Vm> {
    await this.#host.enter("resume", signal);
    const { entry, mustAct } = this.#permitted(ref, "resume");
    entry.guest.thaw();
    return mustAct ? this.#host.change(entry, { state: "running" }) : entry.vm;
  }

  async reset(ref: string, { signal }: Abortable): Promise<Vm> {
    await this.#host.enter("reset", signal);
    const { entry } = this.#permitted(ref, "reset");
    const { pid } = entry.vm;
    entry.guest.reboot();
    this.#host.begin(entry);
    return this.#host.change(entry, pid === undefined ? {} : { pid });
  }

  async remove(ref: string, options: RemoveVmOptions): Promise<void> {
    await this.#host.enter("remove", options.signal);
    const { entry } = this.#permitted(ref, options.force ? "removeByForce" : "remove");
    this.#host.remove(entry);
  }

  async restore(ref: string, snapshotRef: string, { signal }: Abortable): Promise<Vm> {
    await this.#host.enter("restore", signal);
    const { entry } = this.#permitted(ref, "restore");
    const snapshot = this.snapshots.find(snapshotRef);
    if (snapshot.vmId !== entry.vm.id)
      throw new Fault(
        "conflict",
        `snapshot ${snapshot.name || snapshot.id} does not belong to VM ${entry.vm.name}`,
      );
    const state = await this.snapshots.readState(snapshot.id);
    const { vm } = entry;
    this.#host.vms.delete(vm.id);
    const { id: _id, ...rest } = vm;
    const made = this.#host.add(rest, state);
    this.#host.vms.delete(made.vm.id);
    made.vm = { ...vm };
    this.#host.vms.set(vm.id, made);
    return this.#host.begin(made);
  }

  async list({ signal }: Abortable): Promise<readonly Vm[]> {
    await this.#host.enter("list", signal);
    return [...this.#host.vms.values()].map(({ vm }) => vm);
  }

  async inspect(ref: string, { signal }: Abortable): Promise<Vm> {
    await this.#host.enter("inspect", signal);
    return this.#host.find(ref).vm;
  }

  async *watch({ signal }: Abortable): AsyncGenerator<VmEvent, void, void> {
    const all = AbortSignal.any([signal, this.#stop.signal]);
    const known = new Map([...this.#host.vms].map(([id, { vm }]) => [id, vm]));
    const listing = (): VmEvent[] => [
      ...[...known.values()].map((vm) => ({ kind: "listed" as const, vm })),
      { kind: "synced" },
    ];
    const queue = new EventQueue(listing, all);
    queue.push(...listing());
    const addressed = new Set<string>();
    const onChange = (id: string) => {
      const now = this.#host.vms.get(id)?.vm;
      queue.push(...eventsBetween(known.get(id), now));
      if (now) known.set(id, now);
      else known.delete(id);
      if (now?.state !== "running" || addressed.has(id)) return;
      addressed.add(id);
      queue.push({ kind: "networkUp", vm: now, address: this.#findAddress(now) });
    };
    this.#host.changes.on("change", onChange);
    try {
      yield* queue;
    } finally {
      this.#host.changes.off("change", onChange);
    }
  }

  async waitReady(ref: string, { signal }: Abortable): Promise<Vm> {
    await this.#host.enter("waitReady", signal);
    const { entry } = this.#permitted(ref, "exec");
    while (entry.vm.guest !== "ready") {
      if (!(await sleep(5, { signal })))
        throw new Fault("timeout", `the guest of VM ${entry.vm.name} was not ready in time`);
      if (!this.#host.vms.has(entry.vm.id) || entry.vm.state === "stopped")
        throw new Fault("conflict", `VM ${entry.vm.name} stopped running before its guest was ready`);
    }
    return entry.vm;
  }

  async address(ref: string, { signal }: Abortable): Promise<VmAddress | undefined> {
    await this.#host.enter("address", signal);
    return this.#findAddress(this.#host.find(ref).vm);
  }

  async dial(ref: string, port: number, { signal }: Abortable): Promise<Duplex> {
    await this.#host.enter("dial", signal);
    const { entry } = this.#permitted(ref, "forward");
    const service = this.#host.services.get(port);
    if (!service) throw new Fault("unavailable", `cannot connect to port ${port} of the guest`);
    const [near, far] = duplexPair();
    service(far, entry.vm);
    return near;
  }

  async stats(ref: string, { signal }: Abortable): Promise<VmStats> {
    await this.#host.enter("stats", signal);
    this.#permitted(ref, "openConsole");
    return this.#host.buildStats();
  }

  async exec(ref: string, request: ExecRequest, { signal }: Abortable): Promise<GuestProcess> {
    await this.#host.enter("exec", signal);
    const { entry } = this.#permitted(ref, "exec");
    if (request.argv.length === 0) throw new Fault("invalid", "exec: argv is empty");
    const program = this.#startProgram(entry, request);
    entry.programs.add(program);
    void program.exited.then(
      () => entry.programs.delete(program),
      () => entry.programs.delete(program),
    );
    return program;
  }

  async openConsole(ref: string, { signal }: Abortable): Promise<Duplex> {
    await this.#host.enter("openConsole", signal);
    const { entry } = this.#permitted(ref, "openConsole");
    const [near, far] = duplexPair();
    const show = (text: string) => void far.write(text);
    entry.consoles.add(show);
    far.once("close", () => entry.consoles.delete(show));
    near.once("close", () => entry.consoles.delete(show));
    const typed = new PassThrough();
    far.pipe(typed);
    onLines(typed, (text) => {
      const { stdout } = entry.guest.shell({ text, env: {}, size: { rows: 24, columns: 80 } });
      this.#host.print(entry, `${text}\r\n${stdout}# `);
    });
    return near;
  }

  async readConsole(ref: string, options: Abortable & { readonly tailBytes?: number }): Promise<Buffer> {
    await this.#host.enter("readConsole", options.signal);
    const text = Buffer.from(this.#host.find(ref).console, "utf8");
    return options.tailBytes === undefined
      ? text
      : text.subarray(Math.max(0, text.length - options.tailBytes));
  }

  openDisplay(ref: string, _options: Abortable): Promise<Duplex> {
    return Promise.reject(new Fault("notSupported", `VM ${ref} has no display`));
  }

  async gc({ signal }: Abortable): Promise<GcReport> {
    await this.#host.enter("gc", signal);
    return { images: { removed: [], freedBytes: 0 }, removedSnapshots: [], removedDirectories: [] };
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    return Promise.resolve();
  }

  #startProgram(entry: FakeVm, request: ExecRequest): FakeProcess {
    if (request.argv[0] !== "poweroff") return runProgram(entry.guest, request);
    const program = new FakeProcess(request);
    setImmediate(() => this.#host.end(entry, "guest"));
    return program;
  }

  #permitted(ref: string, action: VmAction): { readonly entry: FakeVm; readonly mustAct: boolean } {
    const entry = this.#host.find(ref);
    return { entry, mustAct: assertPermitted(action, entry.vm) };
  }

  #findAddress(vm: Vm): VmAddress {
    const ip = this.#host.findAddress(vm);
    return {
      ip,
      routable: false,
      forwards: [{ protocol: "tcp", guestPort: 22, hostAddress: ip, hostPort: 2222 }],
    };
  }
}

function newVm(name: string, from: Pick<Vm, "config" | "origin">): Parameters<FakeHost["add"]>[0] {
  return {
    name,
    state: "creating",
    hypervisor: "qemu",
    config: from.config,
    origin: from.origin,
    disks: [],
    snapshotIds: [],
    guest: "unknown",
    firstBooted: false,
  };
}
