/** delete: removes sets with their machines. What stays in the registry follows from their snapshot policy. */
import { ignoreFault } from "@cocoon/core";
import { findSet, getName } from "../cluster/find.ts";
import { cocoonSets, type SetObject } from "../cluster/kinds.ts";
import { openSession, type ClusterOptions, type Session } from "../cluster/session.ts";
import { createWaiter, type Awaited, type WaitOptions } from "../cluster/wait.ts";
import { clusterOptions, waitOptions, type CommandSpec } from "../command-spec.ts";

export const command: CommandSpec = {
  usage: "delete <set...>",
  summary: "remove sets and their machines",
  description:
    "Removes the sets and their machines. By default each machine leaves a snapshot (spec.snapshotPolicy); snapshot ls lists it, and snapshot restore starts from it.",
  options: { ...waitOptions("10m"), ...clusterOptions },
  examples: ["cocoonctl delete a1", "cocoonctl delete a b --no-wait"],
  run: deleteSets,
};

async function deleteSets(names: readonly string[], options: ClusterOptions & WaitOptions): Promise<void> {
  const wait = createWaiter(options);
  await using session = await openSession(options);
  // All names first: a mistyped one deletes nothing.
  const sets = await Promise.all(names.map((name) => findSet(session, name)));
  const { client, namespace, signal } = session;
  for (const { metadata } of sets) {
    const key = { namespace, name: metadata.name ?? "" };
    const preconditions = metadata.uid ? { uid: metadata.uid } : {};
    await ignoreFault("notFound", client.delete(cocoonSets, key, { signal, preconditions }));
  }
  if (!options.wait) process.stdout.write(names.map((name) => `${name}: deletion requested\n`).join(""));
  await wait(
    sets.map((set) => awaitGone(session, set)),
    session,
  );
}

/** A set of the same name that was created meanwhile is another one. */
function awaitGone({ client, namespace, signal }: Session, set: SetObject): Awaited {
  const name = getName(set);
  return {
    name,
    look: async () => {
      const found = await ignoreFault("notFound", client.get(cocoonSets, { namespace, name }, { signal }));
      return found?.metadata.uid === set.metadata.uid
        ? { kind: "waiting", text: "its machines are being removed" }
        : { kind: "done", text: `${name}: deleted` };
    },
  };
}
