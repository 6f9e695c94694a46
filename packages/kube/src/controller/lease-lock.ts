/** The Lease object that candidates compete for: read, judged by what was observed, and written with a precondition. */
import { isFault, ignoreFault, type Clock } from "@cocoon/core";
import { formatMicros } from "@cocoon/core/conditions";
import { leases } from "../builtin.ts";
import type { Lease } from "../builtin-objects.ts";
import type { KubeClient } from "../client/client.ts";
import type { ObjectKey } from "../object.ts";

export interface LeaseLockOptions {
  readonly client: KubeClient;
  readonly key: ObjectKey;
  readonly identity: string;
  readonly durationMs: number;
  readonly clock: Clock;
}

export interface CallLimits {
  readonly signal: AbortSignal;
  readonly timeoutMs: number;
}

export type Attempt =
  /** `sentAt`: our own time just before the write was sent; the lease counts from there. */
  | { readonly kind: "held"; readonly sentAt: number; readonly sentAtWall: number; readonly epoch: number }
  | { readonly kind: "other"; readonly holder: string; readonly expiresInMs: number }
  | { readonly kind: "again" };

/** Times in the lease are for people: expiry is measured by our own clock from when the record was first seen. */
export class LeaseLock {
  readonly #options: LeaseLockOptions;
  #observed: { readonly text: string; readonly at: number } | undefined;
  /** What our own last write returned: the next one need not read first. */
  #own: Lease | undefined;

  constructor(options: LeaseLockOptions) {
    this.#options = options;
  }

  /** Takes the lease if it is free or expired, renews it if it is ours. */
  async tryHold(limits: CallLimits): Promise<Attempt> {
    const lease = this.#own ?? (await this.#read(limits));
    if (!lease) return this.#create(limits);
    const expiresInMs = this.#observe(lease);
    const holder = lease.spec?.holderIdentity ?? "";
    if (holder !== "" && holder !== this.#options.identity && expiresInMs > 0)
      return { kind: "other", holder, expiresInMs };
    return this.#write(lease, limits);
  }

  /** Gives the lease back, if it is still ours; the next candidate need not wait for it to expire. */
  async release(limits: CallLimits): Promise<boolean> {
    const lease = this.#own ?? (await this.#read(limits));
    this.#own = undefined;
    if (!lease || lease.spec?.holderIdentity !== this.#options.identity) return false;
    const { holderIdentity: _gone, ...spec } = lease.spec;
    const now = this.#now();
    const freed = { ...lease, spec: { ...spec, leaseDurationSeconds: 1, renewTime: now, acquireTime: now } };
    try {
      await this.#options.client.update(leases, freed, limits);
      return true;
    } catch (error) {
      if (isFault(error, "notFound")) return false;
      if (isFault(error, "conflict")) return this.release(limits); // ends: it is ours no more, or written at last
      throw error;
    }
  }

  #read(limits: CallLimits): Promise<Lease | undefined> {
    return ignoreFault("notFound", this.#options.client.get(leases, this.#options.key, limits));
  }

  #observe(lease: Lease): number {
    const now = this.#options.clock.now();
    const text = JSON.stringify(lease.spec ?? {});
    if (this.#observed?.text !== text) this.#observed = { text, at: now };
    const seconds = lease.spec?.leaseDurationSeconds;
    const durationMs = seconds === undefined ? this.#options.durationMs : seconds * 1_000;
    return this.#observed.at + durationMs - now;
  }

  async #create(limits: CallLimits): Promise<Attempt> {
    const { client, key, clock } = this.#options;
    const sent = { sentAt: clock.now(), sentAtWall: clock.wallNow() };
    const { name, namespace = "default" } = key;
    const lease: Lease = { metadata: { namespace, name }, spec: this.#spec(undefined) };
    try {
      return this.#held(await client.create(leases, lease, limits), sent);
    } catch (error) {
      if (isFault(error, "alreadyExists")) return { kind: "again" };
      throw error;
    }
  }

  async #write(lease: Lease, limits: CallLimits): Promise<Attempt> {
    const { client, clock } = this.#options;
    // Until the answer arrives it is unknown what the server holds: the next attempt reads.
    this.#own = undefined;
    const sent = { sentAt: clock.now(), sentAtWall: clock.wallNow() };
    try {
      const next = { ...lease, spec: { ...lease.spec, ...this.#spec(lease) } };
      return this.#held(await client.update(leases, next, limits), sent);
    } catch (error) {
      if (isFault(error, "conflict") || isFault(error, "notFound")) return { kind: "again" };
      throw error;
    }
  }

  #held(lease: Lease, sent: { readonly sentAt: number; readonly sentAtWall: number }): Attempt {
    this.#own = lease;
    this.#observe(lease);
    return { kind: "held", ...sent, epoch: lease.spec?.leaseTransitions ?? 0 };
  }

  #spec(previous: Lease | undefined): NonNullable<Lease["spec"]> {
    const { identity, durationMs } = this.#options;
    const ours = previous?.spec?.holderIdentity === identity;
    const now = this.#now();
    const transitions = previous?.spec?.leaseTransitions ?? 0;
    return {
      holderIdentity: identity,
      leaseDurationSeconds: Math.ceil(durationMs / 1_000),
      acquireTime: (ours ? previous.spec?.acquireTime : undefined) ?? now,
      renewTime: now,
      leaseTransitions: previous && !ours ? transitions + 1 : transitions,
    };
  }

  #now(): string {
    return formatMicros(new Date(this.#options.clock.wallNow()));
  }
}
