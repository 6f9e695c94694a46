/** The text that parts offer at /metrics: the samples of a name, added up over their labels. */

const maxTextBytes = 4 * 1024 * 1024;

/** Lines that are no sample are skipped: the text comes from another program. */
export function sumSamples(text: string, names: ReadonlySet<string>): Map<string, number> {
  const sums = new Map<string, number>();
  for (const line of text.slice(0, maxTextBytes).split("\n")) {
    if (line.startsWith("#")) continue;
    const match = /^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{.*\})?\s+(\S+)/.exec(line);
    const [, name = "", text = ""] = match ?? [];
    const value = Number(text);
    if (names.has(name) && Number.isFinite(value)) sums.set(name, (sums.get(name) ?? 0) + value);
  }
  return sums;
}

/** The value of a label of the first sample of a name. */
export function findLabel(text: string, name: string, label: string): string {
  const line = text.split("\n").find((each) => each.startsWith(`${name}{`));
  return new RegExp(`[{,]${label}="([^"]*)"`).exec(line ?? "")?.[1] ?? "";
}
