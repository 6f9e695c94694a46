/**
 * The last check before a woken guest runs. A kubelet that stood still since its claim, or a host that was suspended, may have
 * been fenced meanwhile, and another node then restores the same snapshot: the claim is read again when all else is done.
 */
import { Fault, type Abortable } from "@cocoon/core";

/** An answer that took longer says what was, not what is: this process may have stood still while it waited. */
const freshMs = 5_000;
const attempts = 3;

export interface LastCheck {
  /** Throws when this node may not run the machine. */
  readonly verify: (options: Abortable) => Promise<void>;
  /** Goes on while the process stands still. */
  readonly nowMs: () => number;
}

/** Resolves when the claim was read a moment ago; `unavailable` when no answer came in time. */
export async function passLastCheck({ verify, nowMs }: LastCheck, options: Abortable): Promise<void> {
  for (let attempt = 0; attempt < attempts; attempt += 1) {
    const asked = nowMs();
    await verify(options);
    if (nowMs() - asked <= freshMs) return;
  }
  throw new Fault(
    "unavailable",
    `the registry needs more than ${freshMs} ms to say whether this node still claims the snapshot; the guest does not run until it answers sooner`,
  );
}
