/** One set: its machines as a picture, what can be done with it, and its details. */
import { useMemo, type ReactNode } from "react";
import type { MachineRow, SetRow } from "../../../src/shared/rows.ts";
import { listSetActions } from "../actions/set-actions.ts";
import { formatAge } from "../format.ts";
import { listMachines } from "../live/machines.ts";
import { buildKey, useKind } from "../live/store.ts";
import { ActionButton } from "../parts/action-button.tsx";
import { usePage } from "../parts/context.ts";
import { SetDiagram } from "../parts/set-diagram.tsx";
import { SetSnapshots } from "../parts/set-snapshots.tsx";
import { Badge, Facts } from "../parts/small.tsx";
import { Timeline } from "../parts/timeline.tsx";
import { texts } from "../texts.ts";

export function SetPage({
  namespace,
  name,
}: {
  readonly namespace: string;
  readonly name: string;
}): ReactNode {
  const { store } = usePage();
  const sets = useKind(store, "set");
  const pods = useKind(store, "machine");
  const nodes = useKind(store, "node");
  const set = sets.rows.get(buildKey(namespace, name));
  const machines = useMemo(
    (): readonly MachineRow[] =>
      set === undefined
        ? []
        : listMachines(pods.rows, new Map([[name, set]])).filter(
            (each) => each.set === name && each.namespace === namespace,
          ),
    [pods.rows, set, name, namespace],
  );
  if (!set) return <p>{sets.synced ? texts.set.gone : texts.list.loading}</p>;
  return (
    <section>
      <div className="row">
        <h1>
          {name} <Badge text={set.phase} />
        </h1>
        <div className="row actions">
          {listSetActions(set, [...nodes.rows.values()]).map((action) => (
            <ActionButton key={action.title} action={action} />
          ))}
        </div>
      </div>
      <h2>{texts.set.diagram}</h2>
      <SetDiagram machines={machines} suspended={set.phase === "Suspended"} />
      <SetDetails set={set} />
    </section>
  );
}

function SetDetails({ set }: { readonly set: SetRow }): ReactNode {
  const { me } = usePage();
  const { namespace, name } = set;
  return (
    <>
      {me.hasRegistry ? (
        <>
          <h2>{texts.set.snapshots}</h2>
          <SetSnapshots set={set} />
        </>
      ) : null}
      <h2>{texts.set.details}</h2>
      <Facts
        facts={[
          [texts.column.namespace, namespace],
          [texts.column.ready, `${set.ready}/${set.desired}`],
          [texts.column.image, set.image],
          [texts.column.pool, set.pool],
          [texts.column.node, set.node],
          [texts.create.snapshotPolicy, set.snapshotPolicy],
          [texts.column.age, formatAge(set.createdAt)],
          [texts.machine.progress, set.message],
        ]}
      />
      <h2>{texts.machine.timeline}</h2>
      <Timeline
        query={`?namespace=${encodeURIComponent(namespace)}&family=${encodeURIComponent(name)}`}
        createdAt={set.createdAt}
        withNames
        none={texts.set.noEvents}
      />
    </>
  );
}
