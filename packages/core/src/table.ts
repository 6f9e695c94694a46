/** Rows as lines, their columns padded to the widest cell and `gap` spaces apart. */
export function alignColumns(rows: readonly (readonly string[])[], gap = 2): string[] {
  const widths: number[] = [];
  for (const row of rows)
    for (const [column, cell] of row.entries()) widths[column] = Math.max(widths[column] ?? 0, cell.length);
  const space = " ".repeat(gap);
  return rows.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join(space)
      .trimEnd(),
  );
}
