/** Sizes of the user's terminal: a sequence of JSON objects, cut into messages anyhow. */
import type { Readable } from "node:stream";

export interface TerminalSize {
  readonly width: number;
  readonly height: number;
}

const maximumPendingBytes = 4_096;
const largest = 65_535;

/** Yields each well-formed size; what is not one is passed over. Ends with the stream, also when that breaks off. */
export async function* terminalSizes(source: Readable): AsyncGenerator<TerminalSize> {
  try {
    yield* readSizes(source);
  } catch {
    // Sizes are advice. A lost connection ends them like any other end; the command hears of it by its signal.
  }
}

async function* readSizes(source: Readable): AsyncGenerator<TerminalSize> {
  let pending = "";
  for await (const chunk of source) {
    pending += String(chunk);
    for (let end = pending.indexOf("}"); end >= 0; end = pending.indexOf("}")) {
      const size = readSize(pending.slice(0, end + 1));
      pending = pending.slice(end + 1);
      if (size) yield size;
    }
    if (pending.length > maximumPendingBytes) pending = "";
  }
}

function readSize(text: string): TerminalSize | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined; // the next object may be whole again
  }
  if (typeof value !== "object" || value === null || !("Width" in value) || !("Height" in value))
    return undefined;
  const [width, height] = [Number(value.Width), Number(value.Height)];
  const fits = (side: number) => Number.isInteger(side) && side >= 0 && side <= largest;
  return fits(width) && fits(height) ? { width, height } : undefined;
}
