/** One replica's part in the rotation: look, serve what is shared, take the step that is due, bring the targets along. */
import {
  clockSleep,
  Fault,
  isFault,
  getErrorMessage,
  type Abortable,
  type Clock,
  type Logger,
} from "@cocoon/core";
import {
  type BundleTarget,
  distrust,
  heldEverywhere,
  holdExactly,
  injectTargets,
  readTargets,
  requireAnswers,
  type TargetReading,
} from "./bundle-target.ts";
import type { ServerNames } from "./issue.ts";
import { joinBundle } from "./pem.ts";
import { planRotation, type RotationPolicy } from "./rotation-plan.ts";
import { isKeptByAnother, readState, signerId, writeState, type RotationState } from "./rotation-state.ts";
import { found, takeStep, type StepContext } from "./rotation-steps.ts";
import { PairHolder, findValidityProblem, type ServingPair } from "./serving-certificates.ts";
import type { CertificateStore, Stored } from "./secret-store.ts";

export interface RotationOptions {
  readonly store: CertificateStore;
  readonly targets: readonly BundleTarget[];
  readonly names: ServerNames;
  /** Unique among the replicas that share the store, such as the pod's name. */
  readonly replica: string;
  readonly authorityName: string;
  readonly policy: RotationPolicy;
  readonly clock: Clock;
  readonly log: Logger;
}

/** A look takes at most this many rounds: steps that follow at once, and writes that lost against another replica. */
const maxRounds = 12;

export class Rotation {
  readonly #options: RotationOptions;
  #holder: PairHolder | undefined;
  #state: RotationState | undefined;
  #readings: readonly TargetReading[] = [];
  #reportedMs = Number.NEGATIVE_INFINITY;
  #queue: Promise<unknown> = Promise.resolve();

  constructor(options: RotationOptions) {
    this.#options = options;
  }

  get holder(): PairHolder {
    if (!this.#holder) throw new Fault("internal", "certificates are asked for before they were loaded");
    return this.#holder;
  }

  get bundle(): string {
    return this.#state ? joinBundle(this.#state.authorities) : "";
  }

  get busy(): boolean {
    return (this.#state?.authorities.length ?? 0) > 1 || !holdExactly(this.#readings, this.bundle);
  }

  readiness(): string | undefined {
    const { clock, policy, store } = this.#options;
    if (!this.#holder || !this.#state) return `${store.description} was not read yet`;
    const { pair } = this.#holder;
    const silentMs = clock.wallNow() - this.#reportedMs;
    if (silentMs > 0.9 * policy.replicaTtlMs)
      return `${store.description} could not be confirmed for ${Math.round(silentMs / 1000)} s`;
    const problem = findValidityProblem(pair, clock.wallNow()) ?? distrust(this.#readings, pair);
    if (problem !== undefined || this.#isSettled(this.#state, pair)) return problem;
    return "the authority of the serving certificate was put in place only now";
  }

  /** One pass at a time, whatever caused it. */
  sync(options: Abortable): Promise<void> {
    const turn = this.#queue.then(() => this.#look(options));
    this.#queue = turn.catch(() => undefined);
    return turn;
  }

  /** Takes this replica off the list, so that no replica waits for it; best effort. */
  async leave(options: Abortable): Promise<void> {
    const { store, replica } = this.#options;
    const stored = await store.read(options);
    const state = stored && readState(stored);
    if (!stored || !state?.note.replicas[replica]) return;
    const { [replica]: _own, ...others } = state.note.replicas;
    await store.replace(stored, writeState({ ...state, note: { ...state.note, replicas: others } }), options);
  }

  async #look(options: Abortable): Promise<void> {
    for (let round = 0; round < maxRounds; round += 1) if (!(await this.#round(options))) return;
    throw new Fault("conflict", `${this.#options.store.description} keeps changing`);
  }

  /** True when there is reason to look again at once. */
  async #round(options: Abortable): Promise<boolean> {
    const { store, targets } = this.#options;
    this.#readings = await readTargets(targets, this.#readings, options);
    const stored = await store.read(options);
    const state = this.#readable(stored);
    if (!state) return this.#write(stored, await this.#found(), options);
    this.#adopt(state);
    const bundle = joinBundle(state.authorities);
    const held = heldEverywhere(this.#readings, state.authorities);
    const step = planRotation({ ...this.#context(), state, held });
    if (step) {
      if (step.kind !== "report") this.#log("certificate rotation step", { ...step });
      return this.#write(stored, await takeStep(state, step, this.#context()), options);
    }
    this.#reportedMs = state.note.replicas[this.#options.replica]?.seenMs ?? this.#reportedMs;
    return this.#inject(bundle, options);
  }

  async #inject(bundle: string, options: Abortable): Promise<boolean> {
    if (holdExactly(this.#readings, bundle)) return false;
    this.#readings = await injectTargets(this.#readings, bundle, options);
    for (const { target, problem } of this.#readings)
      this.#options.log.debug(
        { object: target.description, error: problem && getErrorMessage(problem) },
        "authorities injected",
      );
    return holdExactly(this.#readings, bundle);
  }

  #adopt(shared: RotationState): void {
    const state = { ...shared, note: { ...shared.note, trusted: this.#trustedSince(shared) } };
    this.#state = state;
    if (!this.#holder) this.#holder = new PairHolder(state.pair);
    else if (this.#maySwitch(state, this.#holder.pair) && this.#holder.set(state.pair))
      this.#log("serving certificate changed", { fingerprint: state.pair.fingerprint });
  }

  /** A replica that started the list afresh may know only since now what this process has known for long. */
  #trustedSince({ note: { trusted } }: RotationState): Record<string, number> {
    const known = this.#state?.note.trusted ?? {};
    return Object.fromEntries(
      Object.entries(trusted).map(([id, sinceMs]) => [id, Math.min(sinceMs, known[id] ?? sinceMs)]),
    );
  }

  /** A pair that clients trust is not replaced by one that they may not trust yet: a replica may have started afresh. */
  #maySwitch(state: RotationState, current: ServingPair): boolean {
    if (findValidityProblem(current, this.#options.clock.wallNow()) !== undefined) return true;
    if (signerId(state.authorities, current) === signerId(state.authorities, state.pair)) return true;
    if (distrust(this.#readings, current) !== undefined) return true;
    return distrust(this.#readings, state.pair) === undefined && this.#isSettled(state, state.pair);
  }

  /** Whether the pair's authority has been in place long enough for every API server to have learned of it. */
  #isSettled({ authorities, note }: RotationState, pair: ServingPair): boolean {
    const { clock, policy } = this.#options;
    const sinceMs = note.trusted[signerId(authorities, pair)];
    return sinceMs !== undefined && clock.wallNow() - sinceMs >= policy.settleMs;
  }

  /** What cannot be used is made anew, unless another program renews it. */
  #readable(stored: Stored | undefined): RotationState | undefined {
    const { store, log } = this.#options;
    if (!stored) return undefined;
    if (isKeptByAnother(stored))
      throw new Fault(
        "invalid",
        `${store.description} holds a certificate without its authority's key, so another program keeps it; serve it from files, or name another Secret`,
      );
    try {
      return readState(stored);
    } catch (error) {
      log.warn(
        { object: store.description, error: getErrorMessage(error) },
        "stored certificates are unusable",
      );
      return undefined;
    }
  }

  #found(): Promise<RotationState> {
    requireAnswers(this.#readings); // or those who are trusted now would not be any more
    this.#log("making a new certificate authority", {});
    const bundles = this.#readings.flatMap((reading) => reading.bundles);
    return found({ remembered: this.#state, bundles }, this.#context());
  }

  async #write(stored: Stored | undefined, state: RotationState, options: Abortable): Promise<boolean> {
    const { store } = this.#options;
    const content = writeState(state);
    try {
      await (stored ? store.replace(stored, content, options) : store.create(content, options));
    } catch (error) {
      // Another replica was faster, or the object was deleted: read again, after a delay that differs between replicas.
      if (!isFault(error, "conflict") && !isFault(error, "alreadyExists") && !isFault(error, "notFound"))
        throw error;
      await clockSleep(this.#options.clock, 20 + Math.random() * 80, options.signal);
    }
    return true;
  }

  #context(): StepContext & { readonly hosts: readonly string[] } {
    const { replica, names, authorityName, policy, clock } = this.#options;
    const serving = this.#holder && this.#state ? signerId(this.#state.authorities, this.#holder.pair) : "";
    return { nowMs: clock.wallNow(), replica, serving, names, hosts: names.hosts, authorityName, policy };
  }

  #log(message: string, fields: Readonly<Record<string, unknown>>): void {
    this.#options.log.info({ object: this.#options.store.description, ...fields }, message);
  }
}
