/**
 * A fake host: what a `FakeRuntime` works on, and what its tests hold. Several runtimes may be opened over one
 * host, as several processes would. Tests can make operations fail or wait, kill VMs, and add services to guests.
 */
import { EventEmitter } from "node:events";
import type { Duplex } from "node:stream";
import { Fault, type FaultCode } from "@cocoon/core";
import { findByRef, newId, vmNotFound } from "../../ids.ts";
import type { RuntimeDescription } from "../../runtime.ts";
import type { Vm, VmExit, VmStats } from "../../vm.ts";
import type { Image } from "../../image-store.ts";
import type { Snapshot } from "../../snapshot.ts";
import { FakeGuest, type FakeGuestState } from "./fake-guest.ts";
import type { FakeProcess } from "./fake-process.ts";

export interface FakeVm {
  vm: Vm;
  readonly guest: FakeGuest;
  readonly programs: Set<FakeProcess>;
  console: string;
  readonly consoles: Set<(text: string) => void>;
}

/** Names of operations that can be made to fail: the port's methods, snapshots' as `snapshots.save`. */
export type FakeOperation = string;

export interface FakeHostOptions {
  /** Where snapshots are kept as files. */
  readonly directory: string;
  readonly images?: readonly string[];
  /** How long a guest takes from its start to `ready`. */
  readonly readyAfterMs?: number;
}

const mebibyte = 1024 * 1024;

export class FakeHost {
  readonly directory: string;
  /** What the runtime describes itself as; tests stand in for another command by it. */
  engine: RuntimeDescription["engine"] = "qemu";
  readonly readyAfterMs: number;
  readonly vms = new Map<string, FakeVm>();
  readonly images = new Map<string, Image>();
  /** Oldest first; what is in them lies in `directory`. */
  readonly snapshots = new Map<string, Snapshot>();
  readonly changes = new EventEmitter();
  /** What answers on a guest's TCP ports. */
  readonly services = new Map<number, (stream: Duplex, vm: Vm) => void>();
  /** Operations that were requested, oldest first. */
  readonly calls: FakeOperation[] = [];
  readonly #failures = new Map<FakeOperation, Fault[]>();
  readonly #delays = new Map<FakeOperation, Promise<void>>();
  #lastPid = 100_000;
  #lastAddress = 0;

  constructor(options: FakeHostOptions) {
    this.directory = options.directory;
    this.readyAfterMs = options.readyAfterMs ?? 0;
    this.changes.setMaxListeners(0);
    this.services.set(22, (stream) => void stream.write("SSH-2.0-fake\r\n"));
    for (const name of options.images ?? ["demo"]) this.addImage(name);
  }

  addImage(name: string): Image {
    const id = `sha256:${Buffer.from(name).toString("hex").padEnd(64, "0").slice(0, 64)}`;
    const image: Image = { id, name, type: "oci", sizeBytes: mebibyte, createdAt: new Date().toISOString() };
    this.images.set(name, image);
    return image;
  }

  /** The next call of that operation fails so. Several wait in line. */
  failNext(operation: FakeOperation, code: FaultCode, message = `fake failure of ${operation}`): void {
    this.#failures.set(operation, [...(this.#failures.get(operation) ?? []), new Fault(code, message)]);
  }

  /** That operation waits until the returned function is called. */
  hold(operation: FakeOperation): () => void {
    const gate = Promise.withResolvers<void>();
    this.#delays.set(operation, gate.promise);
    return () => {
      this.#delays.delete(operation);
      gate.resolve();
    };
  }

  /** Called by the runtime at the begin of each operation. */
  async enter(operation: FakeOperation, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    this.calls.push(operation);
    await this.#delays.get(operation);
    signal.throwIfAborted();
    const failure = this.#failures.get(operation)?.shift();
    if (failure) throw failure;
  }

  find(ref: string): FakeVm {
    const exact = this.vms.get(ref);
    if (exact) return exact;
    const { id } = findByRef(
      ref,
      Array.from(this.vms.values(), ({ vm }) => vm),
      vmNotFound,
    );
    const found = this.vms.get(id);
    if (!found) throw vmNotFound(ref);
    return found;
  }

  add(vm: Omit<Vm, "id" | "createdAt" | "updatedAt" | "epoch" | "nics">, state?: FakeGuestState): FakeVm {
    if ([...this.vms.values()].some((each) => each.vm.name === vm.name))
      throw new Fault("alreadyExists", `vm name "${vm.name}" already exists`);
    const now = new Date().toISOString();
    this.#lastAddress += 1;
    const mac = `02:00:00:00:${hexByte(this.#lastAddress >> 8)}:${hexByte(this.#lastAddress & 255)}`;
    const nic = { mac, backend: "user", queues: 1, queueSize: 512, forwards: [] } as const;
    const made: FakeVm = {
      vm: { ...vm, id: newId(), epoch: newId(), createdAt: now, updatedAt: now, nics: [nic] },
      guest: new FakeGuest(vm.name, state),
      programs: new Set(),
      console: "",
      consoles: new Set(),
    };
    this.vms.set(made.vm.id, made);
    this.changes.emit("change", made.vm.id);
    return made;
  }

  change(entry: FakeVm, changes: Partial<Vm>): Vm {
    entry.vm = { ...entry.vm, ...changes, updatedAt: new Date().toISOString() };
    this.changes.emit("change", entry.vm.id);
    return entry.vm;
  }

  /** The guest begins to run, and is ready after a while. */
  begin(entry: FakeVm): Vm {
    this.#lastPid += 1;
    const { stoppedAt: _stoppedAt, lastExit: _exit, problem: _problem, ...vm } = entry.vm;
    entry.vm = vm;
    const epoch = newId();
    const startedAt = new Date().toISOString();
    const begun = this.change(entry, {
      state: "running",
      pid: this.#lastPid,
      epoch,
      startedAt,
      guest: "booting",
      firstBooted: true,
    });
    entry.guest.hostname = entry.vm.name;
    const ready = () => {
      if (entry.vm.epoch === epoch && entry.vm.guest === "booting") this.change(entry, { guest: "ready" });
    };
    if (this.readyAfterMs === 0) ready();
    else setTimeout(ready, this.readyAfterMs).unref();
    return begun.guest === entry.vm.guest ? begun : entry.vm;
  }

  /** The process is gone, for that reason. */
  end(entry: FakeVm, reason: VmExit["reason"]): Vm {
    for (const program of entry.programs) program.fail();
    entry.guest.reboot();
    const at = new Date().toISOString();
    const { pid: _pid, ...vm } = entry.vm;
    entry.vm = vm;
    return this.change(entry, {
      state: "stopped",
      guest: "unknown",
      stoppedAt: at,
      lastExit: { reason, at },
    });
  }

  kill(ref: string): Vm {
    return this.end(this.find(ref), "killed");
  }

  remove(entry: FakeVm): void {
    for (const program of entry.programs) program.fail();
    this.vms.delete(entry.vm.id);
    this.changes.emit("change", entry.vm.id);
  }

  findAddress(vm: Vm): string {
    const last = vm.nics[0]?.mac.split(":").slice(4) ?? ["0", "0"];
    const [high, low] = last.map((byte) => Number.parseInt(byte, 16));
    return `127.99.${high ?? 0}.${low ?? 0}`;
  }

  buildStats(): VmStats {
    return {
      at: new Date().toISOString(),
      cpu: { usageNanos: 1_000_000 },
      memory: { residentBytes: 64 * mebibyte, privateBytes: 32 * mebibyte, guestPrivateBytes: mebibyte },
      disk: { allocatedBytes: mebibyte, apparentBytes: mebibyte },
      network: { receivedBytes: 0, sentBytes: 0 },
    };
  }

  /** Shows text on the VM's console. */
  print(entry: FakeVm, text: string): void {
    entry.console = `${entry.console}${text}`.slice(-mebibyte);
    for (const show of entry.consoles) show(text);
  }
}

function hexByte(value: number): string {
  return value.toString(16).padStart(2, "0");
}
