/**
 * Brings each guest to the point where it counts as ready: its agent answers, and it has its identity. A
 * clone without it would have its source's name, addresses, clock and, worst, random numbers.
 */
import { randomBytes } from "node:crypto";
import { Backoff, Fault, isFault, getErrorMessage, orAborted, sleep, type Abortable } from "@cocoon/core";
import type { AgentLinks } from "../agent/agent-links.ts";
import type { AgentRequest } from "../agent/agent-session.ts";
import { entropyBytes } from "../agent/agent-protocol.ts";
import type { VmRecord } from "../store/vm-record.ts";
import type { QemuContext } from "../context.ts";
import { watchBoot } from "./boot-watchdog.ts";
import { look } from "../machine/operate.ts";

interface Task {
  readonly epoch: string;
  readonly done: Promise<VmRecord>;
  readonly abort: AbortController;
}

export class Readiness implements AsyncDisposable {
  readonly #context: QemuContext;
  readonly #links: AgentLinks;
  readonly #reset: (id: string) => Promise<unknown>;
  readonly #tasks = new Map<string, Task>();

  /** `reset` starts a guest anew that hangs at boot. */
  constructor(context: QemuContext, links: AgentLinks, reset: (id: string) => Promise<unknown>) {
    this.#context = context;
    this.#links = links;
    this.#reset = reset;
  }

  /** Starts working towards readiness, unless that is under way or there is nothing to do. */
  pursue(record: VmRecord): void {
    if (record.state !== "running" || !record.hasAgent || record.guest === "ready") return;
    void this.#taskFor(record).done.catch(() => undefined); // `wait` reports it
  }

  /** Resolves with the record of the ready VM. */
  async wait(record: VmRecord, { signal }: Abortable): Promise<VmRecord> {
    if (!record.hasAgent) throw new Fault("notSupported", `the guest of VM ${record.name} has no agent`);
    if (record.guest === "ready") return record;
    const late = `the guest of VM ${record.name} was not ready in time`;
    return orAborted(this.#taskFor(record).done, { signal, late });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const tasks = [...this.#tasks.values()];
    for (const task of tasks) task.abort.abort(new Error("the runtime is being closed"));
    await Promise.allSettled(tasks.map((task) => task.done));
  }

  #taskFor(record: VmRecord): Task {
    const known = this.#tasks.get(record.id);
    if (known?.epoch === record.epoch) return known;
    known?.abort.abort(new Error("the guest was started anew"));
    const abort = new AbortController();
    const task: Task = { epoch: record.epoch, abort, done: this.#work(record, abort.signal) };
    this.#tasks.set(record.id, task);
    const forget = () => {
      if (this.#tasks.get(record.id) === task) this.#tasks.delete(record.id);
    };
    task.done.then(forget, forget);
    this.#watchBoot(record, task);
    return task;
  }

  #watchBoot(record: VmRecord, task: Task): void {
    const over = new AbortController();
    const signal = AbortSignal.any([task.abort.signal, over.signal]);
    task.done.then(
      () => over.abort(),
      () => over.abort(),
    );
    void watchBoot(this.#context, { record, reset: this.#reset, signal });
  }

  async #work(record: VmRecord, signal: AbortSignal): Promise<VmRecord> {
    const backoff = new Backoff({ baseMs: 200, maxMs: 5_000 });
    for (;;) {
      try {
        return await this.#refresh(record, signal);
      } catch (error) {
        signal.throwIfAborted();
        await this.#assertStillWanted(record, error);
        this.#context.log.debug({ vm: record.id, error: getErrorMessage(error) }, "guest not ready yet");
        await sleep(backoff.nextMs(), { signal });
      }
    }
  }

  /** A guest that does not run, or is another one by now, is not waited for. */
  async #assertStillWanted(record: VmRecord, cause: unknown): Promise<void> {
    const now = await look(this.#context, await this.#context.store.read(record.id));
    if (now.state !== "running" && now.state !== "paused")
      throw new Fault("conflict", `VM ${record.name} stopped running before its guest was ready`, { cause });
    if (now.epoch !== record.epoch)
      throw new Fault("conflict", `VM ${record.name} was started anew`, { cause });
    if (isFault(cause, "notSupported")) throw cause;
  }

  async #refresh(record: VmRecord, signal: AbortSignal): Promise<VmRecord> {
    const directory = this.#context.store.getDirectory(record.id);
    return this.#links.use(
      directory,
      async (session, pong) => {
        if (pong.epoch !== record.epoch)
          await session.request(buildIdentity(record, this.#context.now()), { signal, timeoutMs: 60_000 });
        return this.#note(record, signal);
      },
      { signal },
    );
  }

  async #note(record: VmRecord, signal: AbortSignal): Promise<VmRecord> {
    using _lock = await this.#context.store.lock(record.id, { signal });
    const now = await this.#context.store.read(record.id);
    if (now.epoch !== record.epoch) throw new Fault("conflict", `VM ${record.name} was started anew`);
    if (now.guest === "ready") return now;
    const { problem: _problem, bootResets: _resets, ...rest } = now;
    const ready: VmRecord = { ...rest, guest: "ready", updatedAt: this.#context.now().toISOString() };
    await this.#context.store.write(ready);
    return ready;
  }
}

/** Who the guest is from now on. The randomness is made for this message alone. */
function buildIdentity(record: VmRecord, now: Date): AgentRequest {
  const { hostname, machineId, instanceId } = record.identity;
  return {
    t: "identity",
    epoch: record.epoch,
    hostname,
    machineId,
    instanceId,
    wallClockMs: now.getTime(),
    entropy: randomBytes(entropyBytes).toString("base64"),
    nics: record.nics.map(({ guest, refreshMac }) => {
      const address = guest.address ? `${guest.address.ip}/${guest.address.prefix}` : "dhcp";
      return [
        refreshMac ? guest.mac : "-",
        address,
        guest.address?.gateway ?? "-",
        guest.dns.join(",") || "-",
        guest.searches?.join(",") ?? "-",
        guest.mtu ?? "-",
      ].join(" ");
    }),
  };
}
