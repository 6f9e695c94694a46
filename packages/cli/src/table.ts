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
