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

export interface Sample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** The samples of those names, each with its labels. */
export function readSamples(text: string, names: ReadonlySet<string>): Sample[] {
  const samples: Sample[] = [];
  for (const line of text.slice(0, maxTextBytes).split("\n")) {
    const brace = line.indexOf("{");
    if (brace < 0 || !names.has(line.slice(0, brace))) continue;
    const match = /^\{(.*)\}\s+(\S+)/.exec(line.slice(brace));
    const value = Number(match?.[2]);
    if (match && Number.isFinite(value))
      samples.push({ name: line.slice(0, brace), labels: readLabels(match[1] ?? ""), value });
  }
  return samples;
}

function readLabels(text: string): Record<string, string> {
  const found = text.matchAll(/([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/g);
  return Object.fromEntries([...found].map(([, name = "", value = ""]) => [name, value]));
}

/** The value of a label of the first sample of a name. */
export function findLabel(text: string, name: string, label: string): string {
  const line = text.split("\n").find((each) => each.startsWith(`${name}{`));
  return new RegExp(`[{,]${label}="([^"]*)"`).exec(line ?? "")?.[1] ?? "";
}
