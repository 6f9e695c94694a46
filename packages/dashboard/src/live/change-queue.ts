/**
 * Changes on their way to one browser. A browser that is slower than the cluster gets the newest state of each object, never a
 * growing queue of old ones.
 */
import type { LiveChange } from "../shared/rows.ts";

/** Changes that come together go out together; far below what a person sees. */
const gatherMs = 25;

export class ChangeQueue {
  readonly #waiting = new Map<string, LiveChange>();
  readonly #send: (changes: readonly LiveChange[]) => boolean;
  #timer: NodeJS.Timeout | undefined;
  #isBlocked = false;

  /** `send` returns false when no more should come until `resume`. */
  constructor(send: (changes: readonly LiveChange[]) => boolean) {
    this.#send = send;
  }

  get size(): number {
    return this.#waiting.size;
  }

  add(change: LiveChange): void {
    const key = buildKey(change);
    this.#waiting.delete(key); // the order is that of the last change
    this.#waiting.set(key, change);
    this.#timer ??= setTimeout(() => this.#flush(), gatherMs);
  }

  resume(): void {
    this.#isBlocked = false;
    this.#flush();
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#waiting.clear();
    this.#isBlocked = true;
  }

  #flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#isBlocked || this.#waiting.size === 0) return;
    const changes = [...this.#waiting.values()];
    this.#waiting.clear();
    this.#isBlocked = !this.#send(changes);
  }
}

function buildKey(change: LiveChange): string {
  switch (change.op) {
    case "put":
      return `${change.row.kind} ${change.row.namespace}/${change.row.name}`;
    case "delete":
      return `${change.kind} ${change.namespace}/${change.name}`;
    case "signedOut":
      return change.op;
    default:
      return `${change.op} ${change.kind}`;
  }
}
