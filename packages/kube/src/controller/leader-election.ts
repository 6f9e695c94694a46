/**
 * Leader election on a Lease: of several replicas one acts. `lead` waits until it holds the lease, runs the body, keeps renewing
 * until the body has ended, then releases it. When the lease was not renewed within `renewDeadlineMs` of the last successful
 * write, `leadership.signal` aborts; others wait `leaseDurationMs`, so the body has the difference to end.
 */
import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import {
  clockSleep,
  Fault,
  Gauge,
  isFault,
  openMetric,
  getErrorMessage,
  systemClock,
  toFault,
  type Clock,
  type Logger,
  type Registry,
} from "@cocoon/core";
import type { KubeClient } from "../client/client.ts";
import { keyText, type ObjectKey } from "../object.ts";
import { Term, type Leadership } from "./leadership.ts";
import { LeaseLock, type Attempt } from "./lease-lock.ts";

export interface LeaderElectionOptions {
  readonly client: KubeClient;
  readonly lease: ObjectKey;
  readonly signal: AbortSignal;
  readonly log: Logger;
  /** Must be unique among all processes that ever compete; the default is. */
  readonly identity?: string;
  readonly leaseDurationMs?: number;
  readonly renewDeadlineMs?: number;
  readonly retryPeriodMs?: number;
  readonly clock?: Clock;
  readonly random?: () => number;
  readonly registry?: Registry;
}

/** Share of the retry period that is random, so that candidates do not come in step. */
const jitter = 0.2;
const releaseTimeoutMs = 5_000;

/**
 * The body's result; undefined when `signal` aborted before. Rejects with what the body threw or why leadership was lost. A body
 * that does not end before the lease expires is abandoned: end the process then.
 */
export async function lead<T>(
  options: LeaderElectionOptions,
  body: (leadership: Leadership) => Promise<T>,
): Promise<T | undefined> {
  const election = new Election(options);
  const term = await election.acquire();
  return term && election.serve(term, body);
}

class Election {
  readonly #options: Required<Omit<LeaderElectionOptions, "registry">>;
  readonly #lock: LeaseLock;
  readonly #log: Logger;
  readonly #status: (leading: boolean) => void;
  #lastProblem = "";

  constructor(options: LeaderElectionOptions) {
    this.#options = {
      identity: `${hostname()}_${randomUUID()}`,
      leaseDurationMs: 15_000,
      renewDeadlineMs: 10_000,
      retryPeriodMs: 2_000,
      clock: systemClock,
      random: Math.random,
      ...options,
    };
    checkTimes(this.#options);
    const { client, lease, identity, leaseDurationMs, clock } = this.#options;
    this.#lock = new LeaseLock({ client, key: lease, identity, durationMs: leaseDurationMs, clock });
    this.#log = options.log.child({ lease: keyText(lease), identity });
    this.#status = statusGauge(options.registry, lease.name);
    this.#status(false);
  }

  async acquire(): Promise<Term | undefined> {
    const { signal, clock, renewDeadlineMs, identity } = this.#options;
    while (!signal.aborted) {
      const attempt = await this.#try(signal, renewDeadlineMs);
      if (attempt?.kind === "held") {
        const term = new Term({ clock, identity, epoch: attempt.epoch, renewDeadlineMs }, attempt);
        if (term.remainingMs > 0 && !signal.aborted) return term;
        if (signal.aborted) await this.#release();
        continue;
      }
      if (attempt?.kind === "other") this.#log.debug({ holder: attempt.holder }, "lease is held by another");
      await clockSleep(clock, this.#waitMs(attempt), signal);
    }
    return undefined;
  }

  async serve<T>(term: Term, body: (leadership: Leadership) => Promise<T>): Promise<T> {
    using _term = term;
    term.watch();
    this.#status(true);
    this.#log.info({ epoch: term.epoch }, "leadership acquired");
    const ended = new AbortController();
    const renewing = this.#renew(term, ended.signal);
    try {
      return await this.#untilExpiry(term, runBody(body, term));
    } finally {
      ended.abort();
      await renewing;
      this.#status(false);
      if (term.signal.aborted)
        this.#log.warn({ error: getErrorMessage(term.signal.reason) }, "leadership lost");
      else await this.#release();
    }
  }

  async #renew(term: Term, ended: AbortSignal): Promise<void> {
    const { clock, retryPeriodMs } = this.#options;
    const stop = AbortSignal.any([ended, term.signal]);
    let attempt: Attempt | undefined;
    const waitMs = () => (attempt?.kind === "again" ? this.#waitMs(attempt) : retryPeriodMs);
    while (await clockSleep(clock, waitMs(), stop)) {
      attempt = await this.#try(stop, Math.max(1, term.remainingMs));
      if (attempt?.kind === "other") term.end(`${attempt.holder} holds the lease`);
      else if (attempt?.kind === "held" && attempt.epoch !== term.epoch)
        term.end("another one held the lease");
      else if (attempt?.kind === "held") term.renewed(attempt);
    }
  }

  /** One attempt; undefined when the server did not answer, which is worth another try. */
  async #try(signal: AbortSignal, timeoutMs: number): Promise<Attempt | undefined> {
    try {
      const attempt = await this.#lock.tryHold({ signal, timeoutMs });
      this.#lastProblem = "";
      return attempt;
    } catch (error) {
      if (!signal.aborted) this.#report(error);
      return undefined;
    }
  }

  #report(error: unknown): void {
    const fault = toFault(error);
    const problem = `${fault.code} ${fault.message}`;
    const level = problem === this.#lastProblem ? "debug" : "warn"; // once per kind of problem, not once per attempt
    this.#lastProblem = problem;
    this.#log[level](
      { code: fault.code, error: getErrorMessage(fault) },
      "cannot acquire or renew the lease",
    );
  }

  #waitMs(attempt: Attempt | undefined): number {
    const { retryPeriodMs, random } = this.#options;
    const spreadMs = jitter * retryPeriodMs * random();
    if (attempt?.kind === "again") return spreadMs;
    const expiresInMs = attempt?.kind === "other" ? attempt.expiresInMs : Infinity;
    return Math.min(retryPeriodMs, expiresInMs) + spreadMs;
  }

  /** The body's end; or a rejection when its leadership was lost and it goes on until others may take over. */
  async #untilExpiry<T>(term: Term, running: Promise<T>): Promise<T> {
    const { clock, leaseDurationMs } = this.#options;
    const { promise: expired, reject } = Promise.withResolvers<never>();
    let cancel: () => void = () => undefined;
    const onLoss = (): void => {
      const leftMs = term.sentAt + leaseDurationMs - clock.now();
      const fault = new Fault(
        "timeout",
        `${getErrorMessage(term.signal.reason)}; work did not end before the lease expired`,
      );
      cancel = clock.schedule(leftMs, () => reject(fault));
    };
    term.signal.addEventListener("abort", onLoss, { once: true });
    if (term.signal.aborted) onLoss();
    try {
      const result = await Promise.race([running, expired]);
      term.signal.throwIfAborted();
      return result;
    } catch (error) {
      // Whatever the body threw after the abort, the loss is the cause.
      if (term.signal.aborted && !isFault(error, "timeout")) throw toFault(term.signal.reason);
      throw error;
    } finally {
      cancel();
      term.signal.removeEventListener("abort", onLoss);
    }
  }

  async #release(): Promise<void> {
    const limits = { signal: AbortSignal.timeout(releaseTimeoutMs), timeoutMs: releaseTimeoutMs };
    try {
      if (await this.#lock.release(limits)) this.#log.info("leadership released");
    } catch (error) {
      // Not fatal: the others take over when the lease expires.
      this.#log.warn({ error: getErrorMessage(error) }, "cannot release the lease");
    }
  }
}

async function runBody<T>(body: (leadership: Leadership) => Promise<T>, term: Term): Promise<T> {
  return body(term);
}

type Times = Pick<Required<LeaderElectionOptions>, "leaseDurationMs" | "renewDeadlineMs" | "retryPeriodMs">;

function checkTimes({ leaseDurationMs, renewDeadlineMs, retryPeriodMs }: Times): void {
  if (leaseDurationMs < 1_000 || leaseDurationMs % 1_000 !== 0)
    throw new Fault("invalid", `lease duration ${leaseDurationMs} ms must be whole seconds, at least one`);
  if (!(renewDeadlineMs < leaseDurationMs))
    throw new Fault("invalid", "the renew deadline must be shorter than the lease duration");
  if (!(retryPeriodMs > 0 && retryPeriodMs * (1 + jitter) < renewDeadlineMs))
    throw new Fault("invalid", "the retry period must be clearly shorter than the renew deadline");
}

export function statusGauge(registry: Registry | undefined, name: string): (leading: boolean) => void {
  if (!registry) return () => undefined;
  const gauge = openMetric(registry, Gauge, {
    name: "leader_election_master_status",
    help: "1 while this process holds the lease of that name.",
    labelNames: ["name"],
  });
  return (leading) => gauge.set({ name }, leading ? 1 : 0);
}
