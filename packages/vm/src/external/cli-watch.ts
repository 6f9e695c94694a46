/** Events of an external `cocoon`: its own stream of changes, which may break at any time and is then begun anew. */
import { Backoff, getErrorMessage, sleep, type Logger } from "@cocoon/core";
import * as z from "zod";
import { EventQueue } from "../events/event-queue.ts";
import { eventsBetween } from "../events/vm-events.ts";
import type { VmEvent } from "../runtime.ts";
import type { Vm, VmAddress } from "../vm.ts";
import { readHypervisor } from "../wire/snapshot-json.ts";
import { vmJsonSchema, readVmJson } from "../wire/vm-json.ts";
import { ended, start, type CocoonCommand } from "./command.ts";

const lineSchema = z.object({ event: z.enum(["ADDED", "MODIFIED", "DELETED"]), vm: vmJsonSchema });

export interface WatchSource {
  readonly command: CocoonCommand;
  readonly log: Logger;
  readonly list: (signal: AbortSignal) => Promise<readonly Vm[]>;
  readonly address: (vm: Vm) => Promise<VmAddress | undefined>;
}

const addressEveryMs = 500;

export async function* watchCocoon(
  source: WatchSource,
  signal: AbortSignal,
): AsyncGenerator<VmEvent, void, void> {
  const stop = new AbortController();
  const all = AbortSignal.any([signal, stop.signal]);
  const watcher = new Watcher(source, all);
  const working = watcher.work();
  try {
    yield* watcher.queue;
  } finally {
    stop.abort();
    await working;
  }
}

class Watcher {
  readonly queue: EventQueue;
  readonly #source: WatchSource;
  readonly #signal: AbortSignal;
  readonly #known = new Map<string, Vm>();
  readonly #addressed = new Set<string>();
  #synced = false;

  constructor(source: WatchSource, signal: AbortSignal) {
    this.#source = source;
    this.#signal = signal;
    this.queue = new EventQueue(() => this.#listing(), signal);
  }

  async work(): Promise<void> {
    const backoff = new Backoff({ baseMs: 1_000, maxMs: 60_000 });
    const addresses = this.#awaitAddresses();
    while (!this.#signal.aborted) {
      try {
        await this.#follow(() => backoff.reset());
      } catch (error) {
        if (!this.#signal.aborted)
          this.#source.log.warn({ error: getErrorMessage(error) }, "event stream of cocoon broke");
      }
      await sleep(backoff.nextMs(), { signal: this.#signal });
    }
    await addresses;
  }

  #listing(): readonly VmEvent[] {
    return [...[...this.#known.values()].map((vm) => ({ kind: "listed" as const, vm })), { kind: "synced" }];
  }

  /** The stream begins with everything there is; what went while it was broken is found by a list of our own. */
  async #follow(healthy: () => void): Promise<void> {
    const child = start(this.#source.command, ["vm", "status", "--event", "--format", "json"]);
    child.stdin.end();
    let rest = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      const lines = `${rest}${text}`.split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) this.#take(line);
      healthy();
    });
    const over = ended(child, { signal: this.#signal });
    over.catch(() => undefined); // awaited below
    await this.#relist();
    await over;
  }

  async #relist(): Promise<void> {
    const now = await this.#source.list(this.#signal);
    const ids = new Set(now.map((vm) => vm.id));
    for (const [id, vm] of this.#known) if (!ids.has(id)) this.#change(vm, undefined);
    if (this.#synced) return now.forEach((vm) => this.#change(this.#known.get(vm.id), vm));
    for (const vm of now) this.#known.set(vm.id, vm);
    this.#synced = true;
    this.queue.push(...this.#listing());
  }

  #take(line: string): void {
    const parsed = lineSchema.safeParse(tryParse(line));
    if (!parsed.success) return; // a line that is none is not worth the stream
    const { event, vm: json } = parsed.data;
    const vm = readVmJson(json, readHypervisor(json.hypervisor));
    if (this.#synced) this.#change(this.#known.get(vm.id), event === "DELETED" ? undefined : vm);
  }

  #change(before: Vm | undefined, now: Vm | undefined): void {
    if (now) this.#known.set(now.id, now);
    else if (before) this.#known.delete(before.id);
    this.queue.push(...eventsBetween(before, now));
    if (!now || now.state !== "running") this.#addressed.delete((now ?? before)?.id ?? "");
  }

  async #awaitAddresses(): Promise<void> {
    while (await sleep(addressEveryMs, { signal: this.#signal })) {
      for (const vm of this.#known.values()) {
        if (vm.state !== "running" || this.#addressed.has(vm.id)) continue;
        const address = await this.#source.address(vm).catch(() => undefined);
        if (!address) continue;
        this.#addressed.add(vm.id);
        this.queue.push({ kind: "networkUp", vm, address });
      }
    }
  }
}

function tryParse(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined; // reported by the schema
  }
}
