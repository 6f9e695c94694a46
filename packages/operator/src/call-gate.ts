/**
 * Calls to something that may hang or be away: each has a deadline, and after several failures in a row the next ones
 * fail at once for a while, so that nobody waits in line for what does not answer.
 */
import { Fault, messageOf, toFault, type Abortable } from "@cocoon/core";

const callTimeoutMs = 10_000;
const failuresToClose = 5;
const closedMs = 10_000;

export class CallGate {
  #failures = 0;
  #closedUntil = 0;
  #lastTrouble = "";

  async run<T>({ signal }: Abortable, call: (limits: Abortable) => Promise<T>): Promise<T> {
    if (performance.now() < this.#closedUntil)
      throw new Fault("unavailable", `the registry does not answer: ${this.#lastTrouble}`);
    const deadline = AbortSignal.timeout(callTimeoutMs);
    try {
      const result = await call({ signal: AbortSignal.any([signal, deadline]) });
      this.#failures = 0;
      return result;
    } catch (error) {
      if (signal.aborted) throw error;
      const fault = deadline.aborted
        ? new Fault("timeout", `the registry did not answer within ${callTimeoutMs} ms`, { cause: error })
        : toFault(error, "registry");
      if (fault.traits.retry && fault.code !== "conflict") this.#note(fault);
      throw fault;
    }
  }

  #note(fault: Fault): void {
    this.#failures += 1;
    this.#lastTrouble = messageOf(fault);
    if (this.#failures >= failuresToClose) this.#closedUntil = performance.now() + closedMs;
  }
}
