/** A new machine that takes long to make is announced as `creating`; one that is quick is published when it is ready. */
import { getErrorMessage } from "@cocoon/core";
import { readPodMachine } from "../pod-machine.ts";
import type { Step } from "./step.ts";
import type { StepContext } from "./step-context.ts";

/** Steps that make a machine which did not exist before; a wake is announced by the plan. */
const makesNew: ReadonlySet<Step["kind"]> = new Set(["run", "clone", "fork", "cloneFromDir", "decideMode"]);

const announceAfterMs = 250;

/** Dispose it after the step: every later write then comes after the announcement. */
export function announceIfSlow(
  { tracked, log }: StepContext,
  { kind }: Step,
  signal: AbortSignal,
): AsyncDisposable | undefined {
  if (!makesNew.has(kind) || readPodMachine(tracked.writer.pod).lifecycle.state !== "") return undefined;
  let written = Promise.resolve();
  const announce = async (): Promise<void> => {
    try {
      await tracked.writer.announce({ state: "creating" }, { signal });
    } catch (error) {
      log.warn({ error: getErrorMessage(error) }, "creation not announced");
    }
  };
  const timer = setTimeout(() => void (written = announce()), announceAfterMs);
  return {
    [Symbol.asyncDispose]: () => {
      clearTimeout(timer);
      return written;
    },
  };
}
