/**
 * Worker threads for hashing, compressing and the file access around them, so that all cores work and the main
 * thread stays free for the network. Each thread gets at most two tasks at a time: one to work on, one so that it
 * never waits for us. Threads that have had nothing to do for a while end: a node sleeps most of the time, and each thread
 * holds tens of megabytes.
 */
import { availableParallelism } from "node:os";
import { AnsweringThread, Fault, toFault, type Abortable } from "@cocoon/core";
import type { AnswerMessage, Task, TaskMessage, TaskResults } from "./worker-protocol.ts";

export interface WorkerPoolOptions {
  /** Threads; default: one per core, at most eight. */
  readonly threads?: number;
  /** Threads end after so long without work; default 10 s. */
  readonly idleMs?: number;
}

interface Job {
  readonly task: Task;
  readonly transfer: readonly ArrayBuffer[];
  readonly settle: (answer: AnswerMessage | Fault) => void;
}

type Thread = AnsweringThread<TaskMessage, AnswerMessage>;

const tasksPerThread = 2;
const mostThreads = 8;
const defaultIdleMs = 10_000;

export class WorkerPool implements AsyncDisposable {
  readonly threads: number;
  readonly #threads: Thread[] = [];
  readonly #queue: Job[] = [];
  readonly #idleMs: number;
  #idle: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(options: WorkerPoolOptions = {}) {
    this.threads = options.threads ?? Math.min(availableParallelism(), mostThreads);
    this.#idleMs = options.idleMs ?? defaultIdleMs;
  }

  /** Threads that there are now. */
  get alive(): number {
    return this.#threads.length;
  }

  /** How many tasks keep every thread busy; more only wait. */
  get width(): number {
    return this.threads * tasksPerThread;
  }

  /** Runs one task. A task that has begun runs to its end; abort only stops the waiting for it. */
  run<K extends Task["kind"]>(
    task: Extract<Task, { readonly kind: K }>,
    { signal, transfer = [] }: Abortable & { readonly transfer?: readonly ArrayBuffer[] },
  ): Promise<TaskResults[K]> {
    if (this.#closed) return Promise.reject(new Fault("unavailable", "the worker threads were stopped"));
    signal.throwIfAborted();
    return new Promise((resolve, reject) => {
      const settle = (answer: AnswerMessage | Fault): void => {
        signal.removeEventListener("abort", leave);
        if (answer instanceof Fault) reject(answer);
        else if ("error" in answer) reject(rebuildFault(answer.error));
        else resolve(answer.result as TaskResults[K]);
      };
      const job: Job = { task, transfer, settle };
      const leave = (): void => {
        const at = this.#queue.indexOf(job);
        if (at >= 0) this.#queue.splice(at, 1);
        reject(signal.reason instanceof Error ? signal.reason : new Error("aborted"));
      };
      signal.addEventListener("abort", leave, { once: true });
      this.#queue.push(job);
      this.#dispatch();
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#idle);
    const gone = new Fault("unavailable", "the worker threads were stopped");
    for (const job of this.#queue.splice(0)) job.settle(gone);
    await this.#endAll();
  }

  async #endAll(): Promise<void> {
    await Promise.all(this.#threads.splice(0).map((thread) => thread.end()));
  }

  #endWhenIdle(): void {
    if (this.#closed || this.#threads.some(({ waiting }) => waiting > 0)) return;
    clearTimeout(this.#idle);
    this.#idle = setTimeout(() => void this.#endAll(), this.#idleMs).unref();
  }

  #dispatch(): void {
    clearTimeout(this.#idle);
    while (this.#queue.length > 0) {
      const thread = this.#freeThread();
      if (!thread) return;
      const job = this.#queue.shift();
      if (!job) return;
      void this.#give(thread, job);
    }
  }

  async #give(thread: Thread, { task, transfer, settle }: Job): Promise<void> {
    settle(await thread.ask({ task }, transfer).catch((error: unknown) => toFault(error)));
    if (this.#closed) return;
    this.#dispatch();
    this.#endWhenIdle();
  }

  #freeThread(): Thread | undefined {
    const idlest = this.#threads.toSorted((a, b) => a.waiting - b.waiting)[0];
    if (idlest?.waiting === 0) return idlest;
    if (this.#threads.length < this.threads) return this.#startThread();
    return idlest && idlest.waiting < tasksPerThread ? idlest : undefined;
  }

  #startThread(): Thread {
    const thread: Thread = new AnsweringThread(new URL("./chunk-worker.ts", import.meta.url), {
      name: "cocoon-chunks",
      onLost: () => {
        const at = this.#threads.indexOf(thread);
        if (at >= 0) this.#threads.splice(at, 1);
      },
    });
    this.#threads.push(thread);
    return thread;
  }
}

function rebuildFault(error: {
  readonly name: string;
  readonly message: string;
  readonly code?: string;
}): Fault {
  if (error.name === "CorruptChunk") return new Fault("invalid", error.message);
  return toFault(
    Object.assign(new Error(error.message), error.code === undefined ? {} : { code: error.code }),
  );
}
