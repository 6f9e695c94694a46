/** How large the snapshots of machines are, by VM name: looked up again whenever another machine fell asleep or woke. */
import { useEffect, useState } from "react";
import { session } from "../api/client.ts";
import { usePage } from "../parts/context.ts";

const none: ReadonlyMap<string, number> = new Map();

/** Nothing where no registry is configured, or the user may not read it. */
export function useSnapshotSizes(asleep: number): ReadonlyMap<string, number> {
  const { me } = usePage();
  const [sizes, setSizes] = useState(none);
  useEffect(() => {
    void asleep; // another number is another content of the registry
    if (!me.hasRegistry) return undefined;
    let isCurrent = true;
    session.registry().then(
      ({ repositories }) =>
        isCurrent && setSizes(new Map(repositories.map(({ name, bytes }) => [name, bytes]))),
      () => undefined, // the list is of use without
    );
    return () => {
      isCurrent = false;
    };
  }, [me.hasRegistry, asleep]);
  return sizes;
}
