/** A wait for a set that was written: by its status from that generation on. */
import { findMachineObstacles } from "./obstacles.ts";
import { cocoonSets, type SetObject } from "./kinds.ts";
import type { Session } from "./session.ts";
import type { LookOptions } from "./set-progress.ts";
import type { Awaited, Look } from "./wait.ts";

export function awaitSet(
  session: Session,
  { metadata }: SetObject,
  look: (set: SetObject, options: LookOptions) => Look,
): Awaited {
  const { client, signal } = session;
  const { namespace = session.namespace, name = "", generation = 0 } = metadata;
  const since = Date.now();
  return {
    name,
    look: async () => look(await client.get(cocoonSets, { namespace, name }, { signal }), { generation }),
    explain: () => findMachineObstacles({ ...session, namespace }, { set: name, since }),
  };
}
