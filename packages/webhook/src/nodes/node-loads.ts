/** What pods ask of each node, added up. */
import { addAmounts, subtractAmounts, type Amounts, type NodeLoad } from "@cocoon/kube/scheduling";

const none: NodeLoad = { pods: 0, amounts: {} };

export class NodeLoads {
  readonly #loads = new Map<string, NodeLoad>();

  get(node: string): NodeLoad {
    return this.#loads.get(node) ?? none;
  }

  add(node: string, amounts: Amounts): void {
    const load = this.get(node);
    this.#loads.set(node, { pods: load.pods + 1, amounts: addAmounts(load.amounts, amounts) });
  }

  remove(node: string, amounts: Amounts): void {
    const load = this.get(node);
    if (load.pods <= 1) this.#loads.delete(node);
    else this.#loads.set(node, { pods: load.pods - 1, amounts: subtractAmounts(load.amounts, amounts) });
  }
}
