/** Markdown as generated pages need it. */

export const notice = (source: string): string =>
  `<!-- Generated from ${source} by npm run generate. Do not edit. -->\n`;

/** A table; an empty one is nothing. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  if (rows.length === 0) return "";
  const line = (cells: readonly string[]) => `| ${cells.map(cell).join(" | ")} |\n`;
  return `${line(head)}|${"---|".repeat(head.length)}\n${rows.map(line).join("")}`;
}

function cell(text: string): string {
  return text.replaceAll("\n", " ").replaceAll("|", "\\|");
}

export function code(text: string): string {
  return text === "" ? "" : `\`${text}\``;
}
