/** Bounds on JSON text that can be checked before it is parsed: parsing costs many times the memory of the text. */

export interface JsonLimits {
  readonly maxDepth: number;
  readonly maxValues: number;
}

const [quote, backslash, comma] = [0x22, 0x5c, 0x2c];
const openers: ReadonlySet<number> = new Set([0x5b, 0x7b]);
const closers: ReadonlySet<number> = new Set([0x5d, 0x7d]);

/** What exceeds the limits; undefined when nothing does. Says nothing about whether the text is JSON. */
export function findExcess(bytes: Uint8Array, { maxDepth, maxValues }: JsonLimits): string | undefined {
  let [depth, values] = [0, 0];
  for (let at = 0; at < bytes.length; at += 1) {
    const byte = bytes[at] ?? 0;
    if (byte === quote) at = findStringEnd(bytes, at);
    else if (byte === comma) values += 1;
    else if (openers.has(byte)) depth += 1;
    else if (closers.has(byte)) depth -= 1;
    if (depth > maxDepth) return `is nested deeper than ${maxDepth} levels`;
    if (values > maxValues) return `holds more than ${maxValues} values`;
  }
  return undefined;
}

function findStringEnd(bytes: Uint8Array, start: number): number {
  let at = start + 1;
  while (at < bytes.length && bytes[at] !== quote) at += bytes[at] === backslash ? 2 : 1;
  return at;
}
