/** Keys that wait for their time, earliest first: a binary heap whose outdated nodes are dropped lazily. */

export interface DelayNode {
  readonly at: number;
  readonly key: string;
  /** Which wish of this key the node stands for; an older ticket is outdated. */
  readonly ticket: number;
}

export class DelayHeap {
  #nodes: DelayNode[] = [];

  get size(): number {
    return this.#nodes.length;
  }

  peek(): DelayNode | undefined {
    return this.#nodes[0];
  }

  push(node: DelayNode): void {
    this.#nodes.push(node);
    this.#up(this.#nodes.length - 1);
  }

  pop(): DelayNode | undefined {
    const first = this.#nodes[0];
    const last = this.#nodes.pop();
    if (first && last && first !== last) {
      this.#nodes[0] = last;
      this.#down(0);
    }
    return first;
  }

  /** Drops every node that does not pass; memory follows the living ones. */
  retain(isLive: (node: DelayNode) => boolean): void {
    // A sorted array is a heap.
    this.#nodes = this.#nodes.filter(isLive).sort(compare);
  }

  #up(start: number): void {
    for (let index = start; index > 0;) {
      const parent = (index - 1) >> 1;
      if (!this.#swapIfBefore(index, parent)) return;
      index = parent;
    }
  }

  #down(start: number): void {
    for (let index = start; ;) {
      const left = 2 * index + 1;
      const right = left + 1;
      const child = this.#isBefore(right, left) ? right : left;
      if (!this.#swapIfBefore(child, index)) return;
      index = child;
    }
  }

  #isBefore(one: number, other: number): boolean {
    const [a, b] = [this.#nodes[one], this.#nodes[other]];
    return a !== undefined && b !== undefined && compare(a, b) < 0;
  }

  #swapIfBefore(one: number, other: number): boolean {
    const [a, b] = [this.#nodes[one], this.#nodes[other]];
    if (!a || !b || compare(a, b) >= 0) return false;
    this.#nodes[one] = b;
    this.#nodes[other] = a;
    return true;
  }
}

/** Equal times in the order of asking. */
function compare(a: DelayNode, b: DelayNode): number {
  return a.at - b.at || a.ticket - b.ticket;
}
