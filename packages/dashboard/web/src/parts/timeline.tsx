/** What happened to a machine, or to a set with its machines, newest first. */
import { useMemo, type ReactNode } from "react";
import type { EventRow } from "../../../src/shared/rows.ts";
import { formatAge, formatTime } from "../format.ts";
import { useKind, useLiveStore } from "../live/store.ts";
import { texts } from "../texts.ts";

interface TimelineProps {
  /** Which events, as the live stream takes it. */
  readonly query: string;
  readonly createdAt?: string;
  /** Say what each event is about: where there are several machines. */
  readonly withNames?: boolean;
  readonly none: string;
}

const shownEvents = 200;

export function Timeline({ query, createdAt, withNames = false, none }: TimelineProps): ReactNode {
  const state = useKind(useLiveStore(query), "event");
  const rows = useMemo(
    () =>
      [...state.rows.values()]
        .sort((left, right) => (left.lastAt < right.lastAt ? 1 : -1))
        .slice(0, shownEvents),
    [state.rows],
  );
  if (state.denied !== "") return <p className="reason">{state.denied}</p>;
  const draw = (some: readonly EventRow[]) =>
    some.map((row) => <TimelineItem key={`${row.namespace}/${row.name}`} row={row} withName={withNames} />);
  // Events of an object that had the name before are older than this one.
  const isLater = ({ lastAt }: EventRow) =>
    createdAt === undefined || Date.parse(lastAt) >= Date.parse(createdAt);
  return (
    <ol className="timeline">
      {state.synced && rows.length === 0 ? <li>{none}</li> : null}
      {draw(rows.filter(isLater))}
      {createdAt === undefined ? null : (
        <li>
          <Moment at={createdAt} /> <strong>{texts.machine.created}</strong>
        </li>
      )}
      {draw(rows.filter((row) => !isLater(row)))}
    </ol>
  );
}

function TimelineItem({ row, withName }: { readonly row: EventRow; readonly withName: boolean }): ReactNode {
  return (
    <li className={row.type === "Warning" ? "warn" : undefined}>
      <Moment at={row.lastAt} /> <strong>{row.reason}</strong>{" "}
      {withName ? <span className="about">{row.about.replace(/^[^/]*\//, "")}</span> : null} {row.message}
      {row.count > 1 ? <small> ×{row.count}</small> : null}
    </li>
  );
}

function Moment({ at }: { readonly at: string }): ReactNode {
  return (
    <time dateTime={at} title={formatTime(at)}>
      {formatAge(at)}
    </time>
  );
}
