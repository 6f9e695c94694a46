/** Signs of life of a guest: how long it stood still, and when it was last seen. */
import { once } from "node:events";
import type { Abortable } from "@cocoon/core";
import type { VmRuntime } from "@cocoon/vm";

export interface Ticking extends AsyncDisposable {
  /** On the clock of `performance.now`. */
  readonly lastAt: number;
  readonly longestMs: number;
  nextTick(): Promise<void>;
}

/** A guest that says something all the time, until its VM ends. */
export async function startTicking(
  runtime: VmRuntime,
  { id, signal }: Abortable & { readonly id: string },
): Promise<Ticking> {
  const argv = ["sh", "-c", "while :; do echo; sleep 0.02; done"];
  const program = await runtime.exec(id, { argv }, { signal });
  program.exited.catch(() => undefined);
  program.stdout.on("error", () => undefined);
  await once(program.stdout, "data", { signal });
  let [lastAt, longestMs] = [performance.now(), 0];
  program.stdout.on("data", () => {
    const now = performance.now();
    longestMs = Math.max(longestMs, now - lastAt);
    lastAt = now;
  });
  return {
    get lastAt() {
      return lastAt;
    },
    get longestMs() {
      return longestMs;
    },
    nextTick: async () => void (await once(program.stdout, "data", { signal })),
    [Symbol.asyncDispose]: () => program[Symbol.asyncDispose](),
  };
}
