/** Tables as kubectl prints them. */
import { alignColumns } from "@cocoon/core";

export interface Column<T> {
  readonly title: string;
  readonly cell: (row: T) => string | undefined;
  /** False: left out. */
  readonly only?: boolean;
}

/** An empty cell shows as a dash. */
export function formatTable<T>(columns: readonly Column<T>[], rows: readonly T[]): string {
  const shown = columns.filter(({ only = true }) => only);
  const header = shown.map(({ title }) => title);
  return alignColumns([header, ...rows.map((row) => shown.map(({ cell }) => cell(row) || "-"))], 3).join(
    "\n",
  );
}

/** 95000 -> "1m35s", as kubectl shows ages: the two largest units. */
export function age(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  const units: readonly (readonly [string, number])[] = [
    ["d", 86_400],
    ["h", 3_600],
    ["m", 60],
    ["s", 1],
  ];
  const first = units.findIndex(([, size]) => seconds >= size);
  if (first < 0) return "0s";
  let rest = seconds;
  return units
    .slice(first, first + 2)
    .map(([unit, size]) => {
      const amount = Math.floor(rest / size);
      rest -= amount * size;
      return amount === 0 && unit !== units[first]?.[0] ? "" : `${amount}${unit}`;
    })
    .join("");
}
