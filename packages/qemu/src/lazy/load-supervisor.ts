/**
 * Looks after machines whose files are loaded while they run: lets the rest come once the guest has answered, starts another
 * page server where one has died, and switches over when all files are here. A process that opens the store without
 * a registry looks after none.
 */
import { join } from "node:path";
import { isAlive, isFault, getErrorMessage, sleep, type ProcessIdentity } from "@cocoon/core";
import type { QemuContext } from "../context.ts";
import { settleLater } from "../machine/operate.ts";
import { vmFile } from "../store/layout.ts";
import type { VmRecord } from "../store/vm-record.ts";
import { isBeingKilled } from "./dying-process.ts";
import { announceAnswered, finishLoading } from "./finish-loading.ts";
import { abortMount } from "./mount.ts";
import { revivePageServer } from "./page-server-process.ts";

const busyMs = 50;
const idleMs = 1_000;
const operationMs = 60_000;

/** Before any QEMU is asked anything: one that waits for content does not answer. */
export async function reviveAll(context: QemuContext): Promise<void> {
  if (!context.settings.lazy) return;
  for (const vm of await context.store.list()) {
    if (vm.kind !== "record" || !vm.record.lazy) continue;
    await revivePageServer(context, vm.record, { replaceStuck: true }).catch((error: unknown) => {
      context.log.error({ vm: vm.id, error: getErrorMessage(error) }, "page server could not be started");
    });
  }
}

export class LoadSupervisor implements AsyncDisposable {
  readonly #context: QemuContext;
  readonly #stop = new AbortController();
  readonly #watched = new Map<string, Promise<void>>();

  constructor(context: QemuContext) {
    this.#context = context;
  }

  /** Those that an earlier process began. */
  async adopt(): Promise<void> {
    if (!this.#context.settings.lazy) return;
    for (const vm of await this.#context.store.list())
      if (vm.kind === "record" && vm.record.lazy) this.watch(vm.id);
  }

  watch(id: string): void {
    if (this.#watched.has(id) || this.#stop.signal.aborted) return;
    const watching = this.#watch(id).finally(() => this.#watched.delete(id));
    this.#watched.set(id, watching);
  }

  async #watch(id: string): Promise<void> {
    const { log } = this.#context;
    const state: Watched = { server: undefined, answered: false };
    let said = "";
    while (!this.#stop.signal.aborted) {
      try {
        const next = await this.#step(id, state);
        if (next === "done") return;
        await sleep(next, { signal: this.#stop.signal });
      } catch (error) {
        if (isFault(error, "notFound")) return;
        const problem = getErrorMessage(error);
        if (problem !== said) log.warn({ vm: id, error: problem }, "loading a machine is held up");
        said = problem;
        await sleep(idleMs, { signal: this.#stop.signal });
      }
    }
  }

  /** How long to wait before the next look. */
  async #step(id: string, state: Watched): Promise<number | "done"> {
    const context = this.#context;
    const record = await context.store.read(id);
    if (!record.lazy || record.state === "creating") return record.lazy ? busyMs : "done";
    if (!record.process || !isAlive(record.process)) {
      await settleLater(context, id, { signal: AbortSignal.timeout(operationMs) });
      return "done";
    }
    // Killed by another program, and not able to end while it waits for content.
    if (await isBeingKilled(record.process.pid)) {
      await abortMount(join(context.store.getDirectory(id), vmFile.lazy));
      return busyMs;
    }
    if (!state.server || !isAlive(state.server)) state.server = await revivePageServer(context, record);
    if (record.lazy.state === "local") return idleMs;
    if (!state.answered && hasAnswered(record)) {
      await announceAnswered(context.store.getDirectory(id));
      state.answered = true;
    }
    const signal = AbortSignal.any([this.#stop.signal, AbortSignal.timeout(operationMs)]);
    return (await finishLoading(context, id, { signal })) ? idleMs : busyMs;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await Promise.allSettled(this.#watched.values());
  }
}

interface Watched {
  server: ProcessIdentity | undefined;
  answered: boolean;
}

/** A guest without an agent cannot be asked; its page server waits some seconds by itself. */
function hasAnswered({ hasAgent, guest }: VmRecord): boolean {
  return hasAgent && guest === "ready";
}
