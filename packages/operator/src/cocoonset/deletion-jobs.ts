/**
 * The steps of terminating sets run beside the reconciles, a few sets at a time: neither many deletions at once nor a slow
 * registry keep another set's reconcile waiting. While other sets come up there is one job at a time, and a pause after
 * it: the API server has to serve both, and users wait for machines that start. Nothing of it is persisted: a job may be
 * repeated.
 */
import { systemClock, type Clock } from "@cocoon/core";
import type { ObjectKey } from "@cocoon/kube";

interface Job {
  readonly uid: string;
  readonly key: ObjectKey;
  readonly run: () => Promise<unknown>;
}

/** While sets come up, the pause after a job as a multiple of the time that it took. */
const pauseShare = 1;
/** A job that waited long for something else says nothing about the load. */
const maxPauseMs = 500;

export class DeletionJobs implements AsyncDisposable {
  readonly #waiting = new Map<string, Job>();
  readonly #running = new Map<string, Promise<void>>();
  readonly #failures = new Map<string, unknown>();
  readonly #concurrency: number;
  readonly #clock: Clock;
  /** Ends the pause that there is. */
  #resume: (() => void) | undefined;
  /** Called when a job has ended: its set is to be reconciled. */
  onEnd: (key: ObjectKey) => void = () => undefined;
  /** Whether sets come up that deletions should leave room for. */
  isBusy: () => boolean = () => false;

  constructor(concurrency: number, clock: Clock = systemClock) {
    this.#concurrency = concurrency;
    this.#clock = clock;
  }

  /** Starts the job unless the set has one. Throws, once, what the set's last one failed with. */
  start(job: Job): void {
    if (this.#failures.has(job.uid)) {
      const error = this.#failures.get(job.uid);
      this.#failures.delete(job.uid);
      throw error;
    }
    if (this.#waiting.has(job.uid) || this.#running.has(job.uid)) return;
    this.#waiting.set(job.uid, job);
    this.#pump();
  }

  forget(uid: string): void {
    this.#failures.delete(uid);
  }

  /** Resolves when nothing runs; only during a pause something may wait then. */
  async idle(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running.values());
  }

  /** What waits is left out; what runs ends by its own signal. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#waiting.clear();
    this.#resume?.();
    await this.idle();
  }

  #pump(): void {
    const limit = this.isBusy() ? 1 : this.#concurrency;
    for (const [uid, job] of this.#waiting) {
      if (this.#resume || this.#running.size >= limit) return;
      this.#waiting.delete(uid);
      this.#running.set(uid, this.#execute(job));
    }
  }

  async #execute({ uid, key, run }: Job): Promise<void> {
    const began = this.#clock.now();
    try {
      await run();
    } catch (error) {
      this.#failures.set(uid, error);
    }
    this.#running.delete(uid);
    if (this.isBusy()) this.#pause(Math.min(maxPauseMs, pauseShare * (this.#clock.now() - began)));
    this.#pump();
    this.onEnd(key);
  }

  #pause(ms: number): void {
    this.#resume?.();
    if (ms <= 0) return;
    const resume = () => {
      cancel();
      this.#resume = undefined;
      this.#pump();
    };
    const cancel = this.#clock.schedule(ms, resume);
    this.#resume = resume;
  }
}
