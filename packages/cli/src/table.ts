/** Columns padded to their widest cell, as kubectl prints them. */
export function table(header: readonly string[], rows: readonly (readonly string[])[]): string {
  const all = [header, ...rows];
  const widths = header.map((_, column) => Math.max(...all.map((row) => (row[column] ?? "").length)));
  return all
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join("   ")
        .trimEnd(),
    )
    .join("\n");
}

export interface Column<T> {
  readonly title: string;
  readonly cell: (row: T) => string | undefined;
  /** Only in tables that ask for it. */
  readonly only?: boolean;
}

/** A table by its columns; what is empty shows as a dash. */
export function tableOf<T>(columns: readonly Column<T>[], rows: readonly T[]): string {
  const shown = columns.filter(({ only = true }) => only);
  return table(
    shown.map(({ title }) => title),
    rows.map((row) => shown.map(({ cell }) => cell(row) || "-")),
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
