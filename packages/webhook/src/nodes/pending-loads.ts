/** What reservations will ask of their nodes before their pods can be seen there. */
import { addAmounts, subtractAmounts, type Amounts } from "./amounts.ts";

export interface PendingLoad {
  readonly pods: number;
  readonly amounts: Amounts;
}

interface Pending {
  readonly node: string;
  readonly amounts: Amounts;
}

export class PendingLoads {
  readonly #byClaim = new Map<string, Pending>();
  readonly #byNode = new Map<string, PendingLoad>();
  readonly #expected = new Map<string, Amounts>();
  readonly #isSeen: (claim: string) => boolean;

  /** A claim whose pod has been seen is that pod's load, not one to come. */
  constructor(isSeen: (claim: string) => boolean) {
    this.#isSeen = isSeen;
  }

  /** What the pod of a claim asks for; known only where its admission is decided. */
  expect(claim: string, amounts: Amounts): void {
    this.#expected.set(claim, amounts);
  }

  forgetExpected(claim: string): void {
    this.#expected.delete(claim);
  }

  add(claim: string, node: string): void {
    this.remove(claim);
    if (claim === "" || node === "" || this.#isSeen(claim)) return;
    const amounts = this.#expected.get(claim) ?? {};
    this.#byClaim.set(claim, { node, amounts });
    const load = this.on(node);
    this.#byNode.set(node, { pods: load.pods + 1, amounts: addAmounts(load.amounts, amounts) });
  }

  remove(claim: string): void {
    const pending = this.#byClaim.get(claim);
    if (!pending) return;
    this.#byClaim.delete(claim);
    const load = this.on(pending.node);
    if (load.pods <= 1) this.#byNode.delete(pending.node);
    else
      this.#byNode.set(pending.node, {
        pods: load.pods - 1,
        amounts: subtractAmounts(load.amounts, pending.amounts),
      });
  }

  /** `except`: a claim that is not counted. */
  on(node: string, except?: string): PendingLoad {
    const load = this.#byNode.get(node) ?? nothing;
    const own = except === undefined ? undefined : this.#byClaim.get(except);
    if (own?.node !== node) return load;
    return { pods: load.pods - 1, amounts: subtractAmounts(load.amounts, own.amounts) };
  }
}

const nothing: PendingLoad = { pods: 0, amounts: {} };
