/**
 * When lines of a serial console were first seen. A console carries no times, so a line counts as of the moment at
 * which this process first had it in hand: exact for what is followed, the time of the first look for older lines.
 * Nothing that may be newer than asked for is left out.
 */
import { Transform } from "node:stream";

interface Mark {
  /** So much of the console was there. */
  readonly bytes: number;
  readonly at: Date;
}

const maxMarks = 1_000;
const maxMachines = 10_000;

export class ConsoleTimes {
  readonly #marks = new Map<string, readonly Mark[]>();

  /** Notes how much there is now. A console that became shorter was cut, and begins anew. */
  look(vm: string, bytes: number, at: Date): readonly Mark[] {
    const known = this.#marks.get(vm) ?? [];
    const last = known.at(-1)?.bytes ?? 0;
    const kept = bytes < last ? [] : known;
    const marks = bytes > (kept.at(-1)?.bytes ?? 0) ? [...kept, { bytes, at }].slice(-maxMarks) : kept;
    this.#marks.delete(vm);
    this.#marks.set(vm, marks);
    const [oldest] = this.#marks.keys();
    if (this.#marks.size > maxMachines && oldest !== undefined) this.#marks.delete(oldest);
    return marks;
  }
}

export interface LineSelection {
  readonly since: Date | undefined;
  readonly timestamps: boolean;
}

/** The lines that were first seen at `since` or later, each with its time where that is asked for. */
export function selectLines(content: Buffer, marks: readonly Mark[], selection: LineSelection): Buffer {
  const { since, timestamps } = selection;
  if (!since && !timestamps) return content;
  let mark = 0;
  const chosen = [...lines(content)].flatMap(({ line, end }) => {
    while (mark < marks.length - 1 && (marks[mark]?.bytes ?? 0) < end) mark += 1;
    const at = marks[mark]?.at;
    if (since && at && at < since) return [];
    return timestamps && at ? [stamp(at), line] : [line];
  });
  return Buffer.concat(chosen);
}

/** Each line with its end of line, and where it ends. */
function* lines(content: Buffer): Generator<{ readonly line: Buffer; readonly end: number }> {
  for (let start = 0; start < content.length;) {
    const newline = content.indexOf(10, start);
    const end = newline < 0 ? content.length : newline + 1;
    yield { line: content.subarray(start, end), end };
    start = end;
  }
}

function stamp(at: Date): Buffer {
  return Buffer.from(`${at.toISOString()} `);
}

/** Puts the time before each line that passes. */
export function stampingLines(now: () => Date = () => new Date()): Transform {
  let atLineStart = true;
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      const pieces: Buffer[] = [];
      for (const { line } of lines(chunk)) {
        if (atLineStart) pieces.push(stamp(now()));
        pieces.push(line);
        atLineStart = line.at(-1) === 10;
      }
      done(null, Buffer.concat(pieces));
    },
  });
}
