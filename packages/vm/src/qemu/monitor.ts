/**
 * Watches all VMs of the store, for as long as somebody listens. Two sources, and no polling: the store's `changes`
 * directory, which every process touches when it has changed a VM, and one connection to each live QEMU, which ends
 * the moment QEMU does, whoever started it. A slow sweep beside them finds what neither told, and cuts logs.
 */
import { watch, type FSWatcher } from "node:fs";
import { Fault, messageOf, sleep, withDeadline } from "@cocoon/core";
import type { Socket } from "node:net";
import type { VmEvent } from "../runtime.ts";
import { liveStates } from "../state.ts";
import { vmFile } from "../store/layout.ts";
import type { StoredVm } from "../store/vm-store.ts";
import type { Vm, VmAddress } from "../vm.ts";
import { trimConsoleLog } from "./console.ts";
import type { QemuContext } from "./context.ts";
import { EventQueue } from "./event-queue.ts";
import { diskTrouble } from "./lifecycle.ts";
import { settleLater, show } from "./operate.ts";
import { awaitGone } from "./process.ts";
import { greetedBy } from "./qmp.ts";
import { connectIn } from "./unix-socket.ts";
import { eventsBetween } from "./vm-events.ts";

const sweepMs = 15_000;
const addressMs = 500;
const lastMomentMs = 150;

/** Our ear at one QEMU. */
interface Ear extends Disposable {
  readonly epoch: string;
}

export interface MonitorHooks {
  /** Called for every VM that runs: it may have to be brought to readiness. */
  readonly onRunning: (stored: StoredVm) => void;
  /** The guest restarted by itself. */
  readonly onReset: (id: string) => void;
  /** QEMU froze the guest because the host's disk failed it, usually by being full. It is shown so in any case. */
  readonly onDiskTrouble: (id: string) => void;
  readonly address: (id: string) => Promise<VmAddress | undefined>;
}

export class Monitor implements Disposable {
  readonly #context: QemuContext;
  readonly #hooks: MonitorHooks;
  readonly #queues = new Set<EventQueue>();
  readonly #known = new Map<string, Vm>();
  readonly #ears = new Map<string, Ear>();
  readonly #addressed = new Set<string>();
  /** Guests that QEMU froze because of their disk. A full disk takes no note of it, so it is kept here. */
  readonly #starved = new Set<string>();
  /** What a QEMU said before it ended, until that is written down. */
  readonly #lastWords = new Map<string, string>();
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
    if (!this.#starved.has(vm.id) || !liveStates.has(vm.state)) return vm;
    return { ...vm, state: "paused", trouble: diskTrouble };
  }

  [Symbol.dispose](): void {
    this.#stop.abort(new Fault("unavailable", "the runtime was closed"));
    this.#watcher?.close();
    for (const ear of this.#ears.values()) ear[Symbol.dispose]();
  }

  #listing(): readonly VmEvent[] {
    const listed = [...this.#known.values()].map((vm) => ({ kind: "listed" as const, vm }));
    return [...listed, { kind: "synced" }];
  }

  async #start(): Promise<void> {
    this.#watcher = watch(this.#context.store.layout.changes, (_kind, id) => this.#lookAt(id ?? ""));
    this.#watcher.unref();
    for (const stored of await this.#context.store.list()) await this.#update(stored.id);
    void this.#sweepForever();
    void this.#awaitAddresses();
  }

  #lookAt(id: string): void {
    if (id === "" || this.#waiting.has(id) || this.#stop.signal.aborted) return;
    this.#waiting.add(id);
    this.#line = this.#line.then(async () => {
      this.#waiting.delete(id);
      await this.#update(id).catch((error: unknown) => {
        this.#context.log.warn({ vm: id, error: messageOf(error) }, "cannot look at vm");
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
      // Seen dead, but the record says otherwise: note it once nobody else works on it.
      if (stored.kind === "record" && liveStates.has(stored.record.state)) void this.#noteEnd(vm.id);
      return;
    }
    if (vm.state === "running") this.#hooks.onRunning(stored);
    if (this.#ears.get(vm.id)?.epoch === vm.epoch) return;
    this.#ears.get(vm.id)?.[Symbol.dispose]();
    this.#ears.set(vm.id, this.#listenTo(vm));
  }

  #forget(id: string): void {
    this.#ears.get(id)?.[Symbol.dispose]();
    this.#ears.delete(id);
    this.#addressed.delete(id);
    this.#starved.delete(id);
  }

  #listenTo(vm: Vm): Ear {
    const abort = new AbortController();
    void this.#hear(vm, abort.signal).catch((error: unknown) => {
      this.#context.log.debug({ vm: vm.id, error: messageOf(error) }, "no connection to vm");
      this.#ears.delete(vm.id);
    });
    return { epoch: vm.epoch, [Symbol.dispose]: () => abort.abort() };
  }

  /** Stays connected until QEMU ends or we are told to go. */
  async #hear(vm: Vm, signal: AbortSignal): Promise<void> {
    const directory = this.#context.store.directoryOf(vm.id);
    const ear = await openEar(directory, signal, {
      onShutdown: (reason) => this.#lastWords.set(vm.id, reason),
      onReset: () => this.#hooks.onReset(vm.id),
      onDiskTrouble: () => {
        this.#starved.add(vm.id);
        this.#lookAt(vm.id);
        this.#hooks.onDiskTrouble(vm.id);
      },
      onResume: () => {
        if (this.#starved.delete(vm.id)) this.#lookAt(vm.id);
      },
    });
    signal.addEventListener("abort", () => ear.hangUp(), { once: true });
    await ear.closed;
    if (signal.aborted || this.#stop.signal.aborted) return;
    if (this.#ears.get(vm.id)?.epoch === vm.epoch) this.#ears.delete(vm.id);
    await this.#noteEnd(vm.id);
  }

  /** Tells at once what is plain to see, then has it written down. */
  async #noteEnd(id: string): Promise<void> {
    const { signal } = this.#stop;
    const stored = await this.#context.store.tryFind(id);
    const process = stored?.kind === "record" ? stored.record.process : undefined;
    // The socket closes a moment before the process is gone.
    if (process) await awaitGone(process, { signal: withDeadline(signal, lastMomentMs) });
    this.#lookAt(id);
    await settleLater(this.#context, id, { signal, ...this.#evidence(id) }).catch((error: unknown) => {
      this.#context.log.warn({ vm: id, error: messageOf(error) }, "cannot note the end of vm");
    });
    this.#lastWords.delete(id);
    this.#lookAt(id);
  }

  #evidence(id: string): { readonly shutdownReason?: string } {
    const shutdownReason = this.#lastWords.get(id);
    return shutdownReason === undefined ? {} : { shutdownReason };
  }

  async #sweepForever(): Promise<void> {
    const { signal } = this.#stop;
    while (await sleep(sweepMs, { signal })) {
      const ids = new Set([...this.#known.keys(), ...(await this.#context.store.list()).map((vm) => vm.id)]);
      for (const id of ids) this.#lookAt(id);
      for (const id of this.#ears.keys()) await trimConsoleLog(this.#context.store.directoryOf(id));
    }
  }

  /** Addresses come from outside (DHCP): asked for only while somebody watches and one is missing. */
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

interface OpenEar {
  readonly closed: Promise<void>;
  hangUp(): void;
}

interface EarHooks {
  readonly onShutdown: (reason: string) => void;
  readonly onReset: () => void;
  readonly onDiskTrouble: () => void;
  readonly onResume: () => void;
}

/** Every connection ends when QEMU does; events come to the one that QEMU greeted, which may be somebody else's for now. */
async function openEar(directory: string, signal: AbortSignal, hooks: EarHooks): Promise<OpenEar> {
  const socket = await connectIn(directory, vmFile.events, { signal });
  const closed = new Promise<void>((resolve) => {
    socket.once("close", () => resolve());
  });
  void listen(socket, signal, hooks);
  return { closed, hangUp: () => socket.destroy() };
}

/** Never rejects: whatever fails here ends the connection. */
async function listen(socket: Socket, signal: AbortSignal, hooks: EarHooks): Promise<void> {
  try {
    const qmp = await greetedBy(socket, { signal });
    qmp.onEvent(({ event, data }) => {
      if (event === "SHUTDOWN") hooks.onShutdown(textOf(data["reason"]));
      if (event === "RESET" && data["guest"] === true) hooks.onReset();
      if (event === "BLOCK_IO_ERROR" && data["action"] === "stop") hooks.onDiskTrouble();
      if (event === "RESUME") hooks.onResume();
    });
    // It may have happened before anybody listened.
    const { status } = await qmp.execute("query-status", { signal });
    if (status === "io-error") hooks.onDiskTrouble();
  } catch {
    socket.destroy();
  }
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}
