/**
 * The stored quotas and the admitted changes that may or may not get stored. A quota under change counts with the larger of its
 * minimums as a child, and with the smaller as a parent.
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
  readonly #changes: ReadonlyMap<string, readonly PendingChange[]>;
  readonly #all: QuotaTree;

  constructor(stored: QuotaTree, changes: Iterable<PendingChange> = []) {
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

  getChanges(name: string): readonly PendingChange[] {
    return this.#changes.get(name) ?? [];
  }

  #minimums(name: string): Resources[] {
    return this.getChanges(name).flatMap(({ after }) => (after ? [after.min] : []));
  }
}

/** More are not tried out: the request waits instead. */
const maxTrees = 256;

/** Every tree that the admitted changes can lead to; what all of them refuse is refused for certain. Undefined when too many. */
export function listPossibleTrees(
  stored: QuotaTree,
  changes: readonly PendingChange[],
): readonly QuotaTree[] | undefined {
  const byName = [...Map.groupBy(changes, ({ name }) => name)];
  const outcomes = byName.map(([name, each]) => [stored.get(name), ...each.map(({ after }) => after)]);
  if (outcomes.reduce((product, each) => product * each.length, 1) > maxTrees) return undefined;
  const changed = new Set(byName.map(([name]) => name));
  const others = [...stored.all()].filter(({ name }) => !changed.has(name));
  return combine(outcomes).map(
    (quotas) => new QuotaTree([...others, ...quotas.filter((quota) => quota !== undefined)]),
  );
}

function combine(outcomes: readonly (readonly (Quota | undefined)[])[]): (Quota | undefined)[][] {
  return outcomes.reduce<(Quota | undefined)[][]>(
    (combined, each) => combined.flatMap((quotas) => each.map((quota) => [...quotas, quota])),
    [[]],
  );
}
