/**
 * The chunks that a machine needed until it answered, in the order in which it needed them. Kept as a small file of the
 * snapshot: the next wake fetches them first. A hint only: what it names is checked like everything else.
 */
import * as z from "zod";

export interface WorkingSetEntry {
  readonly file: string;
  /** Position of the chunk in the file. */
  readonly position: number;
}

export interface WorkingSet {
  readonly chunkBytes: number;
  readonly entries: readonly WorkingSetEntry[];
  /** So many of them until it answered; all when not known. The others it needed right after. */
  readonly untilAnswer?: number;
}

export const maxWorkingSetEntries = 8192;

const count = z.int().nonnegative();
const schema = z.object({
  version: z.literal(1),
  chunkBytes: count,
  files: z.array(z.string().max(255)).max(64),
  order: z.array(z.tuple([count, count])).max(maxWorkingSetEntries),
  untilAnswer: count.exactOptional(),
});

export function writeWorkingSet({ chunkBytes, entries, untilAnswer }: WorkingSet): string {
  const files = [...new Set(entries.map(({ file }) => file))].slice(0, 64);
  const order = entries
    .filter(({ file }) => files.includes(file))
    .slice(0, maxWorkingSetEntries)
    .map(({ file, position }) => [files.indexOf(file), position]);
  const part = untilAnswer === undefined ? {} : { untilAnswer };
  return `${JSON.stringify({ version: 1, chunkBytes, files, order, ...part })}\n`;
}

/** Undefined when it cannot be used: then the wake goes without. */
export function tryReadWorkingSet(text: string): WorkingSet | undefined {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    return undefined;
  }
  const { data } = schema.safeParse(json);
  if (!data) return undefined;
  const entries = data.order.flatMap(([file, position]) => {
    const name = data.files[file];
    return name === undefined ? [] : [{ file: name, position }];
  });
  const { chunkBytes, untilAnswer } = data;
  return { chunkBytes, entries, ...(untilAnswer === undefined ? {} : { untilAnswer }) };
}
