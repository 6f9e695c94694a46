/**
 * Restarts components that end although they were not stopped. A component is supervised while its run record exists:
 * `up` writes it, `down` and `restart` remove it. Each component has its own back-off, and waits until what it needs
 * answers, so that an API server that is down does not make every other part fail over and over.
 *
 * While another command holds the platform's lock (`up`, `down`, `restart`) nothing is restarted: that command decides.
 */
import { existsSync } from "node:fs";
import {
  backoffMs,
  isAlive,
  getErrorMessage,
  sleep,
  tryLockFile,
  type Abortable,
  type Logger,
} from "@cocoon/core";
import type { Component } from "./component.ts";
import { launchComponent } from "./launch.ts";
import { RestartStates } from "./restart-states.ts";
import { findRunning, readRecord, type RunRecord } from "./run-records.ts";

export interface SupervisorOptions extends Abortable {
  readonly directory: string;
  readonly components: readonly Component[];
  readonly lock: string;
  readonly log: Logger;
  readonly times?: Partial<SupervisorTimes>;
}

export interface SupervisorTimes {
  readonly intervalMs: number;
  readonly baseMs: number;
  readonly maxMs: number;
  /** A component that ran this long starts with the shortest back-off again. */
  readonly stableMs: number;
  /** How long a restart waits for the components it needs. */
  readonly needsMs: number;
}

const supervisorTimes: SupervisorTimes = {
  intervalMs: 500,
  baseMs: 500,
  maxMs: 30_000,
  stableMs: 60_000,
  needsMs: 15_000,
};

/** Returns when the signal aborts, or when the directory is no longer there. */
export async function superviseComponents(options: SupervisorOptions): Promise<void> {
  const times = { ...supervisorTimes, ...options.times };
  const states = await openStates(options.directory);
  if (!states) return;
  const gone = new AbortController();
  const signal = AbortSignal.any([options.signal, gone.signal]);
  const loops = options.components.map(async (component) => {
    const supervised = new SupervisedComponent(component, { ...options, signal, times, states });
    while (await sleep(times.intervalMs, { signal })) {
      if (existsSync(options.directory)) await supervised.check();
      else gone.abort();
    }
  });
  await Promise.all(loops);
}

/** Undefined when the directory is removed meanwhile. */
async function openStates(directory: string): Promise<RestartStates | undefined> {
  try {
    return await RestartStates.open(directory);
  } catch (error) {
    if (!existsSync(directory)) return undefined;
    throw error;
  }
}

interface Surroundings extends Omit<SupervisorOptions, "times"> {
  readonly times: SupervisorTimes;
  readonly states: RestartStates;
}

class SupervisedComponent {
  readonly #component: Component;
  readonly #options: Surroundings;
  #failures = 0;
  /** When its process was found dead, by the monotonic clock; undefined while it runs. */
  #deadSince: number | undefined;
  #waitMs = 0;

  constructor(component: Component, options: Surroundings) {
    this.#component = component;
    this.#options = options;
  }

  async check(): Promise<void> {
    const { directory, log, signal } = this.#options;
    const { name } = this.#component;
    try {
      const record = await readRecord(directory, name);
      if (!record || isAlive(record.identity)) return await this.#settle(record);
      await this.#restartWhenDue(record);
    } catch (error) {
      if (!signal.aborted)
        log.warn({ part: name, error: getErrorMessage(error) }, "part could not be restarted");
    }
  }

  /** It runs, or it was stopped on purpose. */
  async #settle(record: RunRecord | undefined): Promise<void> {
    const { states, times } = this.#options;
    if (this.#deadSince !== undefined) await states.clearPending(this.#component.name);
    this.#deadSince = undefined;
    const ranMs = record ? Date.now() - Date.parse(record.startedAt) : Infinity;
    if (ranMs >= times.stableMs) this.#failures = 0;
  }

  async #restartWhenDue(record: RunRecord): Promise<void> {
    const { states, times, log, directory } = this.#options;
    const { name } = this.#component;
    const now = performance.now();
    if (this.#deadSince === undefined) {
      this.#deadSince = now;
      this.#waitMs = backoffMs(this.#failures, times);
      this.#failures += 1;
      await states.setPending(name, this.#waitMs);
      log.warn({ part: name, pid: record.identity.pid, restartInMs: Math.round(this.#waitMs) }, "part ended");
    }
    const elapsedMs = now - this.#deadSince;
    if (elapsedMs < this.#waitMs) return;
    const need = elapsedMs < this.#waitMs + times.needsMs ? await this.#findMissingNeed() : undefined;
    if (need !== undefined) return states.setPending(name, 0, `waits for ${need}`);
    using lock = tryLockFile(this.#options.lock);
    if (!lock) return;
    const current = await readRecord(directory, name);
    if (!current || (await findRunning(directory, name))) return; // stopped or restarted by a command meanwhile
    const { identity } = await launchComponent(this.#component, { directory });
    this.#deadSince = undefined;
    await states.addRestart(name);
    log.info({ part: name, pid: identity.pid, restarts: states.count(name) }, "part restarted");
  }

  async #findMissingNeed(): Promise<string | undefined> {
    const { components, signal } = this.#options;
    const needs = components.filter((each) => this.#component.needs.includes(each.name));
    const answers = await Promise.all(
      needs.map(async (need) => {
        try {
          await need.probe({ signal: AbortSignal.any([signal, AbortSignal.timeout(2_000)]) });
          return undefined;
        } catch {
          return need.name; // why it does not answer is reported for that component itself
        }
      }),
    );
    return answers.find((name) => name !== undefined);
  }
}
