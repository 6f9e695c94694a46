/** A table that draws only the rows in sight, so that thousands cost as much as fifty. Arrow keys move, Enter opens. */
import {
  memo,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
  type KeyboardEvent,
  type ReactNode,
  type RefObject,
} from "react";
import { navigate } from "../route.ts";
import { Link } from "./small.tsx";

export interface TableColumn<T> {
  readonly title: string;
  readonly width: string;
  readonly cell: (row: T) => ReactNode;
}

interface TableProps<T> {
  readonly label: string;
  readonly rows: readonly T[];
  readonly columns: readonly TableColumn<T>[];
  readonly getKey: (row: T) => string;
  /** Where a row leads; the first column is the link. */
  readonly getPath: (row: T) => string;
}

const rowHeight = 34;
const spare = 8;

export function VirtualTable<T>({ label, rows, columns, getKey, getPath }: TableProps<T>): ReactNode {
  const box = useRef<HTMLDivElement>(null);
  // Only the number of the first row: scrolling within a row draws nothing anew.
  const [topRow, setTopRow] = useState(0);
  const height = useHeight(box);
  const [chosen, setChosen] = useState(0);
  const first = Math.max(0, Math.min(topRow, rows.length - 1) - spare);
  const shown = rows.slice(first, first + Math.ceil(height / rowHeight) + 2 * spare);
  const template = useMemo(() => columns.map(({ width }) => width).join(" "), [columns]);
  const onKeyDown = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 20, PageUp: -20 }[event.key];
    const row = rows[chosen];
    if (event.key === "Enter" && row !== undefined && event.target === box.current) navigate(getPath(row));
    if (step === undefined || rows.length === 0) return;
    event.preventDefault();
    const next = Math.min(rows.length - 1, Math.max(0, chosen + step));
    setChosen(next);
    keepInSight(box.current, next);
  };
  return (
    <div className="table" role="table" aria-label={label} aria-rowcount={rows.length + 1}>
      <div className="head" role="row" aria-rowindex={1} style={{ gridTemplateColumns: template }}>
        {columns.map(({ title }) => (
          <span key={title} role="columnheader">
            {title}
          </span>
        ))}
      </div>
      <div
        ref={box}
        className="body"
        role="rowgroup"
        tabIndex={0}
        aria-label={label}
        onScroll={(event) => setTopRow(Math.floor(event.currentTarget.scrollTop / rowHeight))}
        onKeyDown={onKeyDown}
      >
        <div className="space" style={{ height: rows.length * rowHeight }}>
          {shown.map((row, index) => (
            <Row
              key={getKey(row)}
              {...{
                row,
                columns,
                template,
                path: getPath(row),
                at: first + index,
                chosen: first + index === chosen,
              }}
            />
          ))}
        </div>
      </div>
    </div>
  );
}

function useHeight(box: RefObject<HTMLDivElement | null>): number {
  const [height, setHeight] = useState(800);
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    const observer = new ResizeObserver(() => setHeight(element.clientHeight));
    observer.observe(element);
    return () => observer.disconnect();
  }, [box]);
  return height;
}

function keepInSight(element: HTMLDivElement | null, index: number): void {
  if (!element) return;
  const from = index * rowHeight;
  if (from < element.scrollTop) element.scrollTop = from;
  else if (from + rowHeight > element.scrollTop + element.clientHeight)
    element.scrollTop = from + rowHeight - element.clientHeight;
}

interface RowProps<T> {
  readonly row: T;
  readonly columns: readonly TableColumn<T>[];
  readonly template: string;
  readonly path: string;
  readonly at: number;
  readonly chosen: boolean;
}

/** Drawn again only when something of it changed: of the rows in sight, scrolling adds and removes a few. */
const Row = memo(TableRow) as typeof TableRow;

function TableRow<T>({ row, columns, template, path, at, chosen }: RowProps<T>): ReactNode {
  return (
    <div
      role="row"
      aria-rowindex={at + 2}
      className={chosen ? "line chosen" : "line"}
      style={{ gridTemplateColumns: template, transform: `translateY(${at * rowHeight}px)` }}
    >
      {columns.map(({ title, cell }, index) => (
        <span key={title} role="cell">
          {index === 0 ? <Link to={path}>{cell(row)}</Link> : cell(row)}
        </span>
      ))}
    </div>
  );
}
