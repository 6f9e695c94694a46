/** How deep a JSON text nests, found before anything is built from it. */

const quote = 0x22;
const backslash = 0x5c;
/** `[` and `{` differ in one bit, and so do `]` and `}`: with it set there is one opener and one closer. */
const braceBit = 0x20;
const open = 0x7b;
const close = 0x7d;

/** Whether brackets nest deeper than `limit`. The text need not be valid JSON: it protects the parser and recursive walks. */
export function nestsDeeperThan(text: Buffer, limit: number): boolean {
  return opensMoreThan(text, limit) && isDeeperThan(text, limit);
}

/** Most texts have fewer brackets than may nest; finding those few costs far less than reading every byte. */
function opensMoreThan(text: Buffer, limit: number): boolean {
  let left = limit;
  for (const bracket of [open, open & ~braceBit])
    for (let at = text.indexOf(bracket); at !== -1; at = text.indexOf(bracket, at + 1))
      if (left-- === 0) return true;
  return false;
}

function isDeeperThan(text: Uint8Array, limit: number): boolean {
  let depth = 0;
  const length = text.length;
  for (let index = 0; index < length; index += 1) {
    const byte = text[index] ?? 0;
    if (byte === quote) {
      index = endOfString(text, index + 1);
      continue;
    }
    const folded = byte | braceBit;
    if (folded === open) {
      depth += 1;
      if (depth > limit) return true;
    } else if (folded === close) depth -= 1;
  }
  return false;
}

function endOfString(text: Uint8Array, start: number): number {
  let index = start;
  while (index < text.length) {
    const byte = text[index];
    if (byte === quote) return index;
    index += byte === backslash ? 2 : 1;
  }
  return index;
}
