/** Tar headers as snapshot archives use them: ustar with PAX records (POSIX.1-2001). */
import { Fault } from "@cocoon/core";

export const blockBytes = 512;
const octalSizeLimit = 8 ** 11;
const longestPaxBytes = 16 * 1024 * 1024;

export interface TarEntry {
  readonly name: string;
  readonly mode: number;
  /** Bytes of the body. */
  readonly size: number;
  readonly mtime: Date;
  /** Records beyond those that the other members need. */
  readonly pax?: Readonly<Record<string, string>>;
}

/** Header blocks of a regular file, with a PAX header in front when something does not fit otherwise. */
export function formatEntry(entry: TarEntry): Buffer {
  const pax: Record<string, string> = { ...entry.pax };
  if (Buffer.byteLength(entry.name) > 100) pax["path"] = entry.name;
  if (entry.size >= octalSizeLimit) pax["size"] = String(entry.size);
  const header = formatHeader(entry, "0");
  if (Object.keys(pax).length === 0) return header;
  const records = Buffer.concat(Object.entries(pax).map(([key, value]) => formatRecord(key, value)));
  const name = `PaxHeaders.0/${entry.name}`;
  const extended = formatHeader({ ...entry, name, size: records.length, mode: 0o644 }, "x");
  return Buffer.concat([extended, records, padding(records.length), header]);
}

export function padding(size: number): Buffer {
  return Buffer.alloc((blockBytes - (size % blockBytes)) % blockBytes);
}

/** Two empty blocks. */
export const endOfArchive: Buffer = Buffer.alloc(blockBytes * 2);

function formatHeader(entry: TarEntry, type: string): Buffer {
  const header = Buffer.alloc(blockBytes);
  header.write(cutName(entry.name), 0, 100, "utf8");
  const octal = (value: number, at: number, digits: number): void => {
    header.write(`${value.toString(8).padStart(digits, "0")}\0`, at, "latin1");
  };
  octal(entry.mode & 0o7777, 100, 7);
  octal(0, 108, 7);
  octal(0, 116, 7);
  octal(entry.size < octalSizeLimit ? entry.size : 0, 124, 11);
  octal(Math.max(0, Math.floor(entry.mtime.getTime() / 1000)), 136, 11);
  header.write(type, 156, "latin1");
  header.write("ustar\u000000", 257, "latin1");
  header.write(`${checksum(header).toString(8).padStart(6, "0")}\0 `, 148, "latin1");
  return header;
}

/** The first 100 bytes, not cutting through a character. */
function cutName(name: string): string {
  let cut = name;
  while (Buffer.byteLength(cut) > 100) cut = cut.slice(0, -1);
  return cut;
}

/** The length counts itself. */
function formatRecord(key: string, value: string): Buffer {
  const rest = Buffer.byteLength(` ${key}=${value}\n`);
  let length = rest + 1;
  while (String(length).length + rest !== length) length = String(length).length + rest;
  return Buffer.from(`${length} ${key}=${value}\n`);
}

/** Sum of all bytes, the checksum's own field taken as blanks. */
function checksum(header: Uint8Array): number {
  let sum = 8 * 0x20;
  for (const [index, byte] of header.entries()) if (index < 148 || index >= 156) sum += byte;
  return sum;
}

export interface TarHeader {
  readonly name: string;
  readonly mode: number;
  readonly size: number;
  /** The type flag; an old-style NUL is given as "0". */
  readonly type: string;
}

/** Undefined for an empty block, which ends an archive. */
export function readHeader(block: Buffer): TarHeader | undefined {
  if (block.every((byte) => byte === 0)) return undefined;
  if (readNumber(block.subarray(148, 156), "checksum") !== checksum(block))
    throw malformed("a header does not match its checksum");
  const prefix = block.toString("latin1", 257, 262) === "ustar" ? readText(block.subarray(345, 500)) : "";
  const name = readText(block.subarray(0, 100));
  const type = block.toString("latin1", 156, 157);
  return {
    name: prefix === "" ? name : `${prefix}/${name}`,
    mode: readNumber(block.subarray(100, 108), "mode") & 0o7777,
    size: readNumber(block.subarray(124, 136), "size"),
    type: type === "\0" ? "0" : type,
  };
}

function readText(field: Buffer): string {
  const end = field.indexOf(0);
  return field.toString("utf8", 0, end < 0 ? field.length : end);
}

/** Octal text, or big-endian binary when the first bit is set. */
function readNumber(field: Buffer, what: string): number {
  if (((field[0] ?? 0) & 0x80) !== 0) {
    const value = field.subarray(1).reduce((sum, byte) => sum * 256 + byte, (field[0] ?? 0) & 0x7f);
    if (!Number.isSafeInteger(value)) throw malformed(`${what} is too large`);
    return value;
  }
  const text = readText(field).trim();
  if (!/^[0-7]*$/.test(text)) throw malformed(`${what} is not a number`);
  return text === "" ? 0 : Number.parseInt(text, 8);
}

export function assertPaxSize(size: number): void {
  if (size > longestPaxBytes) throw malformed(`PAX records of ${size} bytes`);
}

export function readPax(body: Buffer): Record<string, string> {
  const records: Record<string, string> = {};
  for (let at = 0; at < body.length;) {
    const blank = body.indexOf(0x20, at);
    const length = blank < 0 ? Number.NaN : Number(body.toString("latin1", at, blank));
    const end = at + length;
    const record = body.toString("utf8", blank + 1, end - 1);
    const equals = record.indexOf("=");
    if (
      !Number.isSafeInteger(length) ||
      end > body.length ||
      end <= blank ||
      equals < 1 ||
      body[end - 1] !== 0x0a
    )
      throw malformed("a PAX record is damaged");
    records[record.slice(0, equals)] = record.slice(equals + 1);
    at = end;
  }
  return records;
}

export function malformed(why: string): Fault {
  return new Fault("invalid", `not a readable tar archive: ${why}`);
}
