/**
 * Watches all VMs of the store, while there are watchers. Two sources, and no polling: the store's `changes`
 * directory, which every process touches when it has changed a VM, and one connection to each live QEMU, which ends
 * the moment QEMU does, no matter which process started it. A slow sweep finds what both missed, and cuts logs.
 */
import { watch, type FSWatcher } from "node:fs";
import { Fault, getErrorMessage, sleep, withDeadline } from "@cocoon/core";
import type { Socket } from "node:net";
import { liveStates, type Vm, type VmAddress, type VmEvent } from "@cocoon/vm";
import { vmFile } from "../store/layout.ts";
import type { StoredVm } from "../store/vm-store.ts";
import { trimConsoleLog } from "../guest/console-log.ts";
import type { QemuContext } from "../context.ts";
import { EventQueue, eventsBetween } from "@cocoon/vm/engine";
import { fullDiskProblem } from "../machine/lifecycle.ts";
import { settleLater, show } from "../machine/operate.ts";
import { awaitGone } from "../process/process.ts";
import { greetedBy } from "../qmp/qmp.ts";
import { connectIn } from "@cocoon/vm/host";

const sweepMs = 15_000;
const addressMs = 500;
const lastMomentMs = 150;

/** Our connection at one QEMU. */
interface Listener extends Disposable {
  readonly epoch: string;
}

export interface MonitorHooks {
  /** Called for every VM that runs: it may have to be brought to readiness. */
  readonly onRunning: (stored: StoredVm) => void;
  /** QEMU has copied disk layers and waits for the command to use them. */
  readonly onMergeReady: (id: string) => void;
  /** The guest restarted by itself. */
  readonly onReset: (id: string) => void;
  /** QEMU froze the guest because the host's disk failed it, usually by being full. It is shown so in any case. */
  readonly onDiskProblem: (id: string) => void;
  readonly address: (id: string) => Promise<VmAddress | undefined>;
}

export class Monitor implements Disposable {
  readonly #context: QemuContext;
  readonly #hooks: MonitorHooks;
  readonly #queues = new Set<EventQueue>();
  readonly #known = new Map<string, Vm>();
  readonly #listeners = new Map<string, Listener>();
  readonly #addressed = new Set<string>();
  /** Guests that QEMU froze because of their disk. A full disk takes no note of it, so it is kept here. */
  readonly #diskFull = new Set<string>();
  /** What a QEMU said before it ended, until that is written down. */
  readonly #shutdownReasons = new Map<string, string>();
  readonly #stop = new AbortController();
  #watcher: FSWatcher | undefined;
  #ready: Promise<void> | undefined;
  /** Looks at VMs are done one after the other, each VM at most once in the line. */
  #line: Promise<void> = Promise.resolve();
  readonly #waiting = new Set<string>();

  constructor(context: QemuContext, hooks: MonitorHooks) {
    this.#context = context;
    this.#hooks = hooks;
  }

  async *watch(signal: AbortSignal): AsyncGenerator<VmEvent, void, void> {
    const all = AbortSignal.any([signal, this.#stop.signal]);
    this.#ready ??= this.#start();
    await this.#ready;
    const queue = new EventQueue(() => this.#listing(), all);
    queue.push(...this.#listing());
    this.#queues.add(queue);
    try {
      yield* queue;
    } finally {
      this.#queues.delete(queue);
    }
  }

  /** The VM as this process knows it to be, beyond what could be written down. */
  overlay(vm: Vm): Vm {
    if (!this.#diskFull.has(vm.id) || !liveStates.has(vm.state)) return vm;
    return { ...vm, state: "paused", problem: fullDiskProblem };
  }

  /** Whether QEMU froze the guest because of its disk, and it still stands still. */
  isDiskFull(id: string): boolean {
    return this.#diskFull.has(id);
  }

  [Symbol.dispose](): void {
    this.#stop.abort(new Fault("unavailable", "the runtime was closed"));
    this.#watcher?.close();
    for (const connection of this.#listeners.values()) connection[Symbol.dispose]();
  }

  #listing(): readonly VmEvent[] {
    const listed = [...this.#known.values()].map((vm) => ({ kind: "listed" as const, vm }));
    return [...listed, { kind: "synced" }];
  }

  async #start(): Promise<void> {
    this.#watcher = watch(this.#context.store.layout.changes, (_kind, id) => this.#requeue(id ?? ""));
    this.#watcher.unref();
    for (const stored of await this.#context.store.list()) await this.#update(stored.id);
    void this.#sweepForever();
    void this.#awaitAddresses();
  }

  #requeue(id: string): void {
    if (id === "" || this.#waiting.has(id) || this.#stop.signal.aborted) return;
    this.#waiting.add(id);
    this.#line = this.#line.then(async () => {
      this.#waiting.delete(id);
      await this.#update(id).catch((error: unknown) => {
        this.#context.log.warn({ vm: id, error: getErrorMessage(error) }, "cannot look at vm");
      });
    });
  }

  async #update(id: string): Promise<void> {
    if (this.#stop.signal.aborted) return;
    const stored = await this.#context.store.tryFind(id);
    const now = stored && this.overlay(await show(this.#context, stored, this.#evidence(id)));
    const before = this.#known.get(id);
    if (now) this.#known.set(id, now);
    else this.#known.delete(id);
    const events = eventsBetween(before, now);
    for (const queue of this.#queues) queue.push(...events);
    if (stored && now) this.#follow(stored, now);
    else this.#forget(id);
  }

  #follow(stored: StoredVm, vm: Vm): void {
    if (!liveStates.has(vm.state)) {
      this.#forget(vm.id);
      // Its process is gone, but the record is not updated: note it once no other process works on it.
      if (stored.kind === "record" && liveStates.has(stored.record.state)) void this.#noteEnd(vm.id);
      return;
    }
    if (vm.state === "running") this.#hooks.onRunning(stored);
    if (this.#listeners.get(vm.id)?.epoch === vm.epoch) return;
    this.#listeners.get(vm.id)?.[Symbol.dispose]();
    this.#listeners.set(vm.id, this.#openListener(vm));
  }

  #forget(id: string): void {
    this.#listeners.get(id)?.[Symbol.dispose]();
    this.#listeners.delete(id);
    this.#addressed.delete(id);
    this.#diskFull.delete(id);
  }

  #openListener(vm: Vm): Listener {
    const abort = new AbortController();
    void this.#followEvents(vm, abort.signal).catch((error: unknown) => {
      this.#context.log.debug({ vm: vm.id, error: getErrorMessage(error) }, "no connection to vm");
      this.#listeners.delete(vm.id);
    });
    return { epoch: vm.epoch, [Symbol.dispose]: () => abort.abort() };
  }

  /** Stays connected until QEMU ends or the signal aborts. */
  async #followEvents(vm: Vm, signal: AbortSignal): Promise<void> {
    const directory = this.#context.store.getDirectory(vm.id);
    const connection = await openEventConnection(directory, signal, {
      onShutdown: (reason) => this.#shutdownReasons.set(vm.id, reason),
      onReset: () => this.#hooks.onReset(vm.id),
      onMergeReady: () => this.#hooks.onMergeReady(vm.id),
      onDiskProblem: () => {
        this.#diskFull.add(vm.id);
        this.#requeue(vm.id);
        this.#hooks.onDiskProblem(vm.id);
      },
      onResume: () => {
        if (this.#diskFull.delete(vm.id)) this.#requeue(vm.id);
      },
    });
    signal.addEventListener("abort", () => connection.hangUp(), { once: true });
    await connection.closed;
    if (signal.aborted || this.#stop.signal.aborted) return;
    if (this.#listeners.get(vm.id)?.epoch === vm.epoch) this.#listeners.delete(vm.id);
    await this.#noteEnd(vm.id);
  }

  /** Tells at once what is plain to see, then has it written down. */
  async #noteEnd(id: string): Promise<void> {
    const { signal } = this.#stop;
    const stored = await this.#context.store.tryFind(id);
    const process = stored?.kind === "record" ? stored.record.process : undefined;
    // The socket closes a moment before the process is gone.
    if (process) await awaitGone(process, { signal: withDeadline(signal, lastMomentMs) });
    this.#requeue(id);
    await settleLater(this.#context, id, { signal, ...this.#evidence(id) }).catch((error: unknown) => {
      this.#context.log.warn({ vm: id, error: getErrorMessage(error) }, "cannot note the end of vm");
    });
    this.#shutdownReasons.delete(id);
    this.#requeue(id);
  }

  #evidence(id: string): { readonly shutdownReason?: string } {
    const shutdownReason = this.#shutdownReasons.get(id);
    return shutdownReason === undefined ? {} : { shutdownReason };
  }

  async #sweepForever(): Promise<void> {
    const { signal } = this.#stop;
    while (await sleep(sweepMs, { signal })) {
      const ids = new Set([...this.#known.keys(), ...(await this.#context.store.list()).map((vm) => vm.id)]);
      for (const id of ids) this.#requeue(id);
      for (const id of this.#listeners.keys()) await trimConsoleLog(this.#context.store.getDirectory(id));
    }
  }

  /** Addresses come from outside (DHCP): looked up only while there are watchers and one is missing. */
  async #awaitAddresses(): Promise<void> {
    const { signal } = this.#stop;
    do {
      const missing = [...this.#known.values()].filter(
        (vm) => vm.state === "running" && !this.#addressed.has(vm.id),
      );
      for (const vm of missing) {
        const address = await this.#hooks.address(vm.id).catch(() => undefined);
        if (!address) continue;
        this.#addressed.add(vm.id);
        for (const queue of this.#queues) queue.push({ kind: "networkUp", vm, address });
      }
    } while (await sleep(addressMs, { signal }));
  }
}

interface EventConnection {
  readonly closed: Promise<void>;
  hangUp(): void;
}

interface EventHooks {
  readonly onMergeReady: () => void;
  readonly onShutdown: (reason: string) => void;
  readonly onReset: () => void;
  readonly onDiskProblem: () => void;
  readonly onResume: () => void;
}

/** Every connection ends when QEMU does; events come to the one that QEMU greeted, which may belong to another process for now. */
async function openEventConnection(
  directory: string,
  signal: AbortSignal,
  hooks: EventHooks,
): Promise<EventConnection> {
  const socket = await connectIn(directory, vmFile.events, { signal });
  const closed = new Promise<void>((resolve) => {
    socket.once("close", () => resolve());
  });
  void listen(socket, signal, hooks);
  return { closed, hangUp: () => socket.destroy() };
}

/** Never rejects: whatever fails here ends the connection. */
async function listen(socket: Socket, signal: AbortSignal, hooks: EventHooks): Promise<void> {
  try {
    const qmp = await greetedBy(socket, { signal });
    qmp.onEvent(({ event, data }) => {
      if (event === "SHUTDOWN") hooks.onShutdown(readText(data["reason"]));
      if (event === "RESET" && data["guest"] === true) hooks.onReset();
      if (event === "BLOCK_IO_ERROR" && data["action"] === "stop") hooks.onDiskProblem();
      if (event === "RESUME") hooks.onResume();
      if (event === "BLOCK_JOB_PENDING") hooks.onMergeReady();
    });
    // It may have happened before this connection was there.
    const { status } = await qmp.execute("query-status", { signal });
    if (status === "io-error") hooks.onDiskProblem();
    const jobs = await qmp.execute("query-jobs", { signal });
    if (jobs.some((job) => job.status === "pending")) hooks.onMergeReady();
  } catch {
    socket.destroy();
  }
}

function readText(value: unknown): string {
  return typeof value === "string" ? value : "";
}
