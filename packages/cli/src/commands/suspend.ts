/** suspend and resume: hibernate or wake every machine of a set. May be repeated. */
import { findSet, getName } from "../cluster/find.ts";
import { awaitSet } from "../cluster/await-set.ts";
import { cocoonSets } from "../cluster/kinds.ts";
import { openSession, type ClusterOptions } from "../cluster/session.ts";
import { lookRunning, lookSuspended } from "../cluster/set-progress.ts";
import { createWaiter, type Awaited, type WaitOptions } from "../cluster/wait.ts";
import { clusterOptions, waitOptions, type CommandSpec } from "../command-spec.ts";

export const command: CommandSpec = {
  usage: "suspend <set...>",
  summary: "hibernate every machine of a set",
  description:
    "Hibernates every machine of the sets: memory and disk are pushed to the registry, and the nodes are free again.",
  options: { ...waitOptions("10m"), ...clusterOptions },
  examples: ["cocoonctl suspend demo", "cocoonctl suspend a b --no-wait"],
  run: (names: readonly string[], options: SuspendOptions) => change(names, true, options),
};

export interface SuspendOptions extends ClusterOptions, WaitOptions {}

export function resume(names: readonly string[], options: SuspendOptions): Promise<void> {
  return change(names, false, options);
}

async function change(names: readonly string[], sleep: boolean, options: SuspendOptions): Promise<void> {
  const wait = createWaiter(options);
  await using session = await openSession(options);
  const { client, signal, namespace } = session;
  // All names first: a mistyped one changes nothing.
  const sets = await Promise.all(names.map((name) => findSet(session, name)));
  const patch = { type: "merge", body: { spec: { suspend: sleep ? true : null } } } as const;
  const waits: Awaited[] = [];
  for (const set of sets) {
    const unchanged = (set.spec?.suspend ?? false) === sleep;
    const key = { namespace, name: getName(set) };
    const written = unchanged ? set : await client.patch(cocoonSets, { key, patch }, { signal });
    waits.push(awaitSet(session, written, sleep ? lookSuspended : lookRunning));
  }
  if (!options.wait)
    process.stdout.write(
      names.map((name) => `${name}: ${sleep ? "hibernation requested" : "wake requested"}\n`).join(""),
    );
  await wait(waits, session);
}
