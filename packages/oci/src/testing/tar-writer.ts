/** Writes small tar archives for tests, malformed ones too. */
import { Readable } from "node:stream";

export interface TestEntry {
  readonly path: string;
  /** tar's own letter: "0" file, "1" hard link, "2" symbolic link, "5" directory, "3" "4" devices, "6" fifo. */
  readonly flag?: string;
  readonly content?: string | Buffer;
  readonly link?: string;
  readonly mode?: number;
  readonly uid?: number;
  readonly gid?: number;
  readonly mtime?: number;
  readonly major?: number;
  readonly minor?: number;
  /** PAX records that come before it. */
  readonly pax?: Readonly<Record<string, string | Buffer>>;
  /** What the header says about the size, when that is a lie. */
  readonly claimedSize?: number;
}

export function writeTestTar(entries: readonly TestEntry[], { end = true } = {}): Buffer {
  const parts = entries.flatMap((entry) => [
    ...(entry.pax ? member(paxEntry(entry.pax)) : []),
    ...member(entry),
  ]);
  return Buffer.concat([...parts, ...(end ? [Buffer.alloc(1024)] : [])]);
}

/** In pieces, so that nothing depends on how the bytes arrive. */
export function inPieces(bytes: Buffer, pieceBytes = 700): AsyncIterable<Buffer> {
  const pieces: Buffer[] = [];
  for (let at = 0; at < bytes.length; at += pieceBytes) pieces.push(bytes.subarray(at, at + pieceBytes));
  return Readable.from(pieces);
}

function paxEntry(records: Readonly<Record<string, string | Buffer>>): TestEntry {
  const content = Object.entries(records).map(([key, value]) => {
    const body = Buffer.concat([Buffer.from(` ${key}=`), Buffer.from(value), Buffer.from("\n")]);
    let length = body.length + 1;
    while (String(length).length + body.length !== length) length = String(length).length + body.length;
    return Buffer.concat([Buffer.from(String(length)), body]);
  });
  return { path: "PaxHeader", flag: "x", content: Buffer.concat(content) };
}

function member(entry: TestEntry): Buffer[] {
  const content = Buffer.from(entry.content ?? "");
  const header = Buffer.alloc(512);
  const octal = (value: number, at: number, length: number) =>
    header.write(`${value.toString(8).padStart(length - 1, "0")}\0`, at, "latin1");
  header.write(entry.path, 0, 100, "utf8");
  octal(entry.mode ?? 0o644, 100, 8);
  octal(entry.uid ?? 0, 108, 8);
  octal(entry.gid ?? 0, 116, 8);
  octal(entry.claimedSize ?? content.length, 124, 12);
  octal(entry.mtime ?? 0, 136, 12);
  header.write(entry.flag ?? "0", 156, "latin1");
  header.write(entry.link ?? "", 157, 100, "utf8");
  header.write("ustar\x0000", 257, "latin1");
  octal(entry.major ?? 0, 329, 8);
  octal(entry.minor ?? 0, 337, 8);
  header.write("        ", 148, "latin1");
  octal(
    header.reduce((sum, byte) => sum + byte, 0),
    148,
    7,
  );
  return [header, content, Buffer.alloc((512 - (content.length % 512)) % 512)];
}
