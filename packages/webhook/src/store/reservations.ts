/** Reservations for those who admit pods and for those who tidy up: one writer per pool behind it. */
import { annotation } from "@cocoon/contract";
import { Fault, orAborted, type Abortable } from "@cocoon/core";
import type { KubeClient } from "@cocoon/kube";
import { Looks } from "../pods/live-look.ts";
import type { PlanContext } from "./claim-plan.ts";
import type { ClaimRequest, Granted, Plan } from "./claim-request.ts";
import { beforeClaim, formatOwnerKey, type Entry, type OwnerChain } from "./entry.ts";
import type { Held } from "./reservation-index.ts";
import { PoolWriter, type PoolWriterOptions } from "./pool-writer.ts";
import type { Decision } from "./task.ts";

export interface ReservationsOptions extends Omit<PoolWriterOptions, "pool"> {
  readonly client: KubeClient;
  /** Whether the machine of that name is hibernated in the registry; false when the lookup failed. */
  readonly isInRegistry: (vmName: string, options: Abortable) => Promise<boolean>;
}

export type Answer =
  | { readonly kind: "granted"; readonly granted: Granted }
  | { readonly kind: "refused"; readonly fault: Fault };

const mostRounds = 6;
/** Users name pools in their pods: their number is limited. */
const mostPools = 256;

export class Reservations {
  readonly #options: ReservationsOptions;
  readonly #writers = new Map<string, PoolWriter>();
  readonly #looks: Looks;

  constructor(options: ReservationsOptions) {
    this.#options = options;
    this.#looks = new Looks(options.client, options);
  }

  /** Repeatable with the same claim. Throws when the store could not be written. */
  async reserve(request: ClaimRequest, { signal }: Abortable): Promise<Answer> {
    for (let round = 0; round < mostRounds; round += 1) {
      const plan = await this.#getWriter(request.pool).submit<Plan>({
        signal,
        decide: (claims) => asDecision(claims.plan(request)),
      });
      if (plan.kind === "put" || plan.kind === "held") return { kind: "granted", granted: plan.granted };
      if (plan.kind === "refuse") return { kind: "refused", fault: new Fault(plan.code, plan.message) };
      await this.#learn(request, plan, signal);
    }
    throw new Fault("unavailable", "no reservation could be decided; retry");
  }

  async #learn(
    { ownerChain, learned }: ClaimRequest,
    plan: Extract<Plan, { kind: "look" | "prove" }>,
    signal: AbortSignal,
  ): Promise<void> {
    const { isInRegistry } = this.#options;
    if (plan.kind === "look")
      learned.look = await orAborted(this.#looks.at(ownerChain.namespace), { signal });
    else learned.proofs.set(plan.vmName, await isInRegistry(plan.vmName, { signal }));
  }

  /**
   * The reservation that an earlier call about the same pod made; undefined when the claim is unknown, another pod's,
   * or that of a pod which exists. A pod that was copied carries the claim of its original: only the API server can say
   * that there is none. Repeatable.
   */
  async recall(wanted: Recall, { signal }: Abortable): Promise<Held | undefined> {
    const { claim, ownerChain } = wanted;
    const { reserved, pods } = this.#options.context;
    if (pods.hasClaim(claim) || pods.hasDeparted(claim)) return undefined;
    // Another replica may have made it a moment ago.
    if (!reserved.heldBy(claim)) await orAborted(this.#options.writes.refreshEverything(), { signal });
    const held = reserved.heldBy(claim);
    if (!held || !isFor(held.entry, wanted)) return undefined;
    const look = await orAborted(this.#looks.at(ownerChain.namespace), { signal });
    const exists = look.pods.some(({ annotations }) => annotations[annotation.reservation] === claim);
    return exists ? undefined : held;
  }

  /** Takes back a claim whose pod will not come: the slot is what it was before. */
  async giveUp(held: Held, options: Abortable): Promise<void> {
    const { claim } = held.entry;
    await this.edit(
      held,
      ({ entry }) =>
        entry.claim === claim && entry.podUid === "" ? { entry: beforeClaim(entry) } : undefined,
      options,
    );
  }

  /**
   * Changes or removes one entry. `change` sees it as it is when the write is decided, again after every conflict;
   * undefined leaves it alone. Resolves to whether something was written.
   */
  edit(held: Held, change: (now: Held) => Change | undefined, { signal }: Abortable): Promise<boolean> {
    const { reserved } = this.#options.context;
    return this.#getWriter(findPool(held, reserved)).submit<boolean>({
      signal,
      decide: () => {
        const now = reserved.shard(held.shard)?.held.get(held.key);
        const wanted = now && !reserved.inFlight(now.entry.vmName) ? change(now) : undefined;
        if (!now || !wanted) return { kind: "done", value: false };
        return { kind: "write", held: now, entry: wanted.entry, value: true, verify: false };
      },
    });
  }

  /** Adds an entry for a machine that is there already; false when its name is taken. */
  adopt(entry: Entry, { signal }: Abortable): Promise<boolean> {
    const { reserved } = this.#options.context;
    return this.#getWriter(entry.pool).submit<boolean>({
      signal,
      decide: () => {
        const [held] = reserved.holding(entry.vmName);
        if (held || reserved.inFlight(entry.vmName)) return { kind: "done", value: false };
        return { kind: "write", held: undefined, entry, value: true, verify: true };
      },
    });
  }

  get problem(): string | undefined {
    for (const [pool, writer] of this.#writers)
      if (writer.problem !== undefined)
        return `reservations of pool ${pool} cannot be written: ${writer.problem}`;
    return undefined;
  }

  #getWriter(pool: string): PoolWriter {
    const known = this.#writers.get(pool);
    if (known) return known;
    if (this.#writers.size >= mostPools) this.#dropIdle();
    if (this.#writers.size >= mostPools)
      throw new Fault("tooManyRequests", `reservations for more than ${mostPools} pools at once`);
    const { context, writes, watchProgress, log, signal } = this.#options;
    const writer = new PoolWriter({ pool, context, writes, watchProgress, log, signal });
    this.#writers.set(pool, writer);
    return writer;
  }

  #dropIdle(): void {
    for (const [pool, writer] of this.#writers) if (writer.isIdle) this.#writers.delete(pool);
  }
}

export interface Recall {
  readonly claim: string;
  readonly ownerChain: OwnerChain;
  readonly podName: string;
}

function isFor(entry: Entry, { ownerChain, podName }: Recall): boolean {
  return (
    entry.podUid === "" &&
    entry.goneSince === "" &&
    entry.pod === podName &&
    entry.namespace === ownerChain.namespace &&
    (entry.deployment !== "") === (ownerChain.form === "slot") &&
    formatOwnerKey(entry) === formatOwnerKey(ownerChain)
  );
}

export interface Change {
  /** Undefined: removed. */
  readonly entry: Entry | undefined;
}

function findPool({ shard, entry }: Held, reserved: PlanContext["reserved"]): string {
  return reserved.shard(shard)?.pool ?? entry.pool;
}

function asDecision(plan: Plan): Decision<Plan> {
  if (plan.kind === "held") return { kind: "confirm", held: plan.held, value: plan };
  if (plan.kind !== "put") return { kind: "done", value: plan };
  return {
    kind: "write",
    held: plan.replaces,
    entry: plan.granted.entry,
    value: plan,
    // Pools are written independently of each other: the same new name may be on its way in another one.
    verify: plan.replaces === undefined,
  };
}
