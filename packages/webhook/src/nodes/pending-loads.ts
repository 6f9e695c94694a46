/** What reservations will ask of their nodes before their pods can be seen there. */
import { subtractAmounts, type Amounts, type NodeLoad } from "@cocoon/kube/scheduling";
import { NodeLoads } from "./node-loads.ts";

export class PendingLoads {
  readonly #byClaim = new Map<string, { readonly node: string; readonly amounts: Amounts }>();
  readonly #loads = new NodeLoads();
  readonly #expected = new Map<string, Amounts>();
  readonly #isSeen: (claim: string) => boolean;

  /** A claim whose pod has been seen is that pod's load, not one to come. */
  constructor(isSeen: (claim: string) => boolean) {
    this.#isSeen = isSeen;
  }

  /** What the pod of a claim requests; known only where its admission is decided. */
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
    this.#loads.add(node, amounts);
  }

  remove(claim: string): void {
    const pending = this.#byClaim.get(claim);
    if (!pending) return;
    this.#byClaim.delete(claim);
    this.#loads.remove(pending.node, pending.amounts);
  }

  /** `except`: a claim that is not counted. */
  on(node: string, except?: string): NodeLoad {
    const load = this.#loads.get(node);
    const own = except === undefined ? undefined : this.#byClaim.get(except);
    if (own?.node !== node) return load;
    return { pods: load.pods - 1, amounts: subtractAmounts(load.amounts, own.amounts) };
  }
}
