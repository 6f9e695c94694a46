/**
 * The quotas as they are stored, and around them the changes that were admitted and may or may not get stored. A check
 * must hold whatever becomes of those: a quota under change counts with the larger of its minimums as a child, and
 * with the smaller as a parent.
 */
import { largest, smallest, type Resources } from "../resources.ts";
import { QuotaTree, type Quota } from "./quota-tree.ts";

/** An admitted change: `after` is undefined for a deletion, `before` for a creation. */
export interface PendingChange {
  readonly name: string;
  readonly before: Quota | undefined;
  readonly after: Quota | undefined;
}

export class PendingTree {
  readonly stored: QuotaTree;
  readonly #changes: ReadonlyMap<string, readonly PendingChange[]>;
  /** Stored quotas and those that are being created. */
  readonly #all: QuotaTree;

  constructor(stored: QuotaTree, changes: Iterable<PendingChange> = []) {
    this.stored = stored;
    this.#changes = Map.groupBy(changes, ({ name }) => name);
    const created = [...this.#changes].flatMap(([name, each]) => {
      const after = each.find((change) => change.after)?.after;
      return after && stored.get(name) === undefined ? [after] : [];
    });
    this.#all = created.length === 0 ? stored : new QuotaTree([...stored.all(), ...created]);
  }

  get(name: string): Quota | undefined {
    return this.#all.get(name);
  }

  boundTo(namespace: string): Quota | undefined {
    return this.#all.boundTo(namespace);
  }

  /** Also those that are only about to become children. */
  children(name: string): readonly Quota[] {
    const own = this.#all.children(name);
    const moving = [...this.#changes.values()].flatMap((each) =>
      each.flatMap(({ after }) => (after && after.parent === name ? [after] : [])),
    );
    const missing = moving.filter((quota) => !own.some((each) => each.name === quota.name));
    return missing.length === 0
      ? own
      : [...own, ...new Map(missing.map((each) => [each.name, each])).values()];
  }

  asChild(quota: Quota): Resources {
    return largest([quota.min, ...this.#minimums(quota.name)]);
  }

  asParent(name: string): Resources | undefined {
    const quota = this.get(name);
    return quota && this.#minimums(name).reduce((least, each) => smallest(least, each), quota.min);
  }

  /** Whether a change of one of these quotas is under way. */
  touches(names: Iterable<string>): boolean {
    for (const name of names) if (this.#changes.has(name)) return true;
    return false;
  }

  changesOf(name: string): readonly PendingChange[] {
    return this.#changes.get(name) ?? [];
  }

  changedNames(): readonly string[] {
    return [...this.#changes.keys()];
  }

  #minimums(name: string): Resources[] {
    return this.changesOf(name).flatMap(({ after }) => (after ? [after.min] : []));
  }
}
