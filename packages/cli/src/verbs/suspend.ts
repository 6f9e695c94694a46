/** suspend and resume: every machine of a set sleeps, or wakes. What is asked for again is asked for once. */
import { findSet, nameOf } from "../cluster/find.ts";
import { cocoonSets, type SetObject } from "../cluster/kinds.ts";
import { openSession, type ClusterOptions, type Session } from "../cluster/session.ts";
import { lookRunning, lookSuspended } from "../cluster/set-progress.ts";
import { waiterOf, type Awaited, type WaitOptions } from "../cluster/wait.ts";

export interface SuspendOptions extends ClusterOptions, WaitOptions {}

export function suspend(names: readonly string[], options: SuspendOptions): Promise<void> {
  return change(names, true, options);
}

export function resume(names: readonly string[], options: SuspendOptions): Promise<void> {
  return change(names, false, options);
}

async function change(names: readonly string[], sleep: boolean, options: SuspendOptions): Promise<void> {
  const wait = waiterOf(options);
  await using session = await openSession(options);
  // All names first: a mistyped one changes nothing.
  const sets = await Promise.all(names.map((name) => findSet(session, name)));
  const waits: Awaited[] = [];
  for (const set of sets) waits.push(await changeOne(session, set, sleep));
  if (!options.wait)
    process.stdout.write(names.map((name) => `${name}: ${sleep ? "is to sleep" : "is to wake"}\n`).join(""));
  await wait(waits, session);
}

async function changeOne(session: Session, set: SetObject, sleep: boolean): Promise<Awaited> {
  const { client, signal, namespace } = session;
  const key = { namespace, name: nameOf(set) };
  const asked = (set.spec?.suspend ?? false) === sleep;
  const written = asked
    ? set
    : await client.patch(
        cocoonSets,
        { key, patch: { type: "merge", body: { spec: { suspend: sleep ? true : null } } } },
        { signal },
      );
  const generation = written.metadata.generation ?? 0;
  return {
    name: key.name,
    look: async () => {
      const now = await client.get(cocoonSets, key, { signal });
      return sleep ? lookSuspended(now, { generation }) : lookRunning(now, { generation });
    },
  };
}
