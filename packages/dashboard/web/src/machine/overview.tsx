/** Details of a machine, the progress of a hibernate or wake, and its life so far. */
import { useMemo, type ReactNode } from "react";
import type { EventRow, HibernationRow, MachineRow } from "../../../src/shared/rows.ts";
import { formatAge, formatTime, shortDigest } from "../format.ts";
import { buildKey, useKind, useLiveStore } from "../live/store.ts";
import { usePage } from "../parts/context.ts";
import { Facts, Link } from "../parts/small.tsx";
import { buildPath } from "../route.ts";
import { texts } from "../texts.ts";

export function Overview({ machine }: { readonly machine: MachineRow }): ReactNode {
  const { store } = usePage();
  const { namespace, name } = machine;
  const hibernation = useKind(store, "hibernation").rows.get(buildKey(namespace, name));
  return (
    <>
      <Progress machine={machine} hibernation={hibernation} />
      <h2>{texts.machine.details}</h2>
      <Facts
        facts={[
          [texts.column.namespace, namespace],
          [
            texts.column.set,
            machine.set === "" ? (
              ""
            ) : (
              <Link to={buildPath("sets", namespace, machine.set)}>{machine.set}</Link>
            ),
          ],
          [texts.column.role, machine.role],
          [texts.column.node, machine.node],
          [texts.column.address, machine.ip],
          [texts.column.image, machine.image],
          [texts.column.cpu, machine.cpu],
          [texts.column.memory, machine.memory],
          ["VM", machine.vmName],
          ["Forked from", machine.forkedFrom],
          ["Snapshot", shortDigest(machine.snapshot)],
          ["Idle since", formatTime(machine.idleSince)],
          [texts.column.age, formatAge(machine.createdAt)],
        ]}
      />
      <h2>{texts.machine.timeline}</h2>
      <Timeline machine={machine} />
    </>
  );
}

const moving: ReadonlySet<string> = new Set(["hibernating", "waking", "creating"]);

function Progress({
  machine,
  hibernation,
}: {
  readonly machine: MachineRow;
  readonly hibernation: HibernationRow | undefined;
}): ReactNode {
  const message = machine.message || hibernation?.message || "";
  if (!moving.has(machine.state) && machine.message === "") return null;
  return (
    <div className="progress" role="status">
      {moving.has(machine.state) ? <progress aria-label={texts.machine.progress} /> : null} {machine.state}
      {message === "" ? "" : `: ${message}`}
    </div>
  );
}

function Timeline({ machine }: { readonly machine: MachineRow }): ReactNode {
  const query = `?namespace=${encodeURIComponent(machine.namespace)}&about=${encodeURIComponent(machine.name)}`;
  const state = useKind(useLiveStore(query), "event");
  const rows = useMemo(
    () => [...state.rows.values()].sort((left, right) => (left.lastAt < right.lastAt ? 1 : -1)),
    [state.rows],
  );
  if (state.denied !== "") return <p>{state.denied}</p>;
  return (
    <ol className="timeline">
      {state.synced && rows.length === 0 ? <li>{texts.machine.noEvents}</li> : null}
      {rows.map((row) => (
        <TimelineItem key={row.name} row={row} />
      ))}
      <li>
        <time>{formatTime(machine.createdAt)}</time> <strong>{texts.machine.created}</strong>
      </li>
    </ol>
  );
}

function TimelineItem({ row }: { readonly row: EventRow }): ReactNode {
  return (
    <li className={row.type === "Warning" ? "warn" : undefined}>
      <time>{formatTime(row.lastAt)}</time> <strong>{row.reason}</strong> {row.message}
      {row.count > 1 ? <small> ×{row.count}</small> : null}
    </li>
  );
}
