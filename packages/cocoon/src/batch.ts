/** Verbs that take several VMs: all references are resolved first, then everything is done at once. */
import { availableParallelism } from "node:os";
import { Fault, getErrorMessage } from "@cocoon/core";
import type { VmRuntime } from "@cocoon/vm";
import type { CommandSession } from "./session.ts";

export interface BatchWork {
  readonly names: readonly string[];
  readonly output: string | undefined;
  readonly prefix?: string;
  readonly verb: (runtime: VmRuntime, id: string) => Promise<unknown>;
}

/** One unknown name: nothing is done. Several failures: all are reported, and no JSON is printed. */
export async function batch(session: CommandSession, work: BatchWork): Promise<void> {
  const runtime = await session.runtime();
  const ids = new Set<string>();
  for (const name of work.names) ids.add((await runtime.inspect(name, session)).id);
  const succeeded: string[] = [];
  const failures: string[] = [];
  const waiting = [...ids];
  const width = session.settings.poolSize || availableParallelism();
  const worker = async () => {
    for (let id = waiting.shift(); id !== undefined; id = waiting.shift()) {
      try {
        await work.verb(runtime, id);
        succeeded.push(id);
      } catch (error) {
        session.signal.throwIfAborted();
        failures.push(`${id}: ${getErrorMessage(error)}`);
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(width, ids.size) }, worker));
  if (failures.length > 0) throw new Fault("internal", `${work.prefix ?? ""}${failures.join("\n")}`);
  if (work.output === "json") session.printJson({ succeeded: succeeded.length > 0 ? succeeded : null });
  else for (const id of succeeded) session.say(`${id}: done`);
}
