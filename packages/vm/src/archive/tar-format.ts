/**
 * The part of tar that snapshot archives use: regular files in ustar headers, with PAX records before them where a
 * name, a size or a sparse map needs it. Sparse files are ordinary entries whose body is only the data segments:
 *
 *   COCOON.sparse.map   [{"o":offset,"l":length},…]
 *   COCOON.sparse.size  real size in bytes, decimal
 */
import { Fault } from "@cocoon/core";

export const tarBlock = 512;
export const sparseMapKey = "COCOON.sparse.map";
export const sparseSizeKey = "COCOON.sparse.size";
/** Largest size that the octal field of a header holds. */
const maxOctalSize = 8 ** 11 - 1;
const maxNameBytes = 100;

export interface TarHeader {
  readonly name: string;
  readonly type: string;
  readonly size: number;
  readonly mode: number;
}

export function paddingOf(size: number): number {
  return (tarBlock - (size % tarBlock)) % tarBlock;
}

/** The header blocks of one regular file, PAX records included. */
export function writeHeaders(
  file: { readonly name: string; readonly size: number; readonly mode: number; readonly modifiedAt: Date },
  extra: ReadonlyMap<string, string>,
): Buffer {
  const records = new Map(extra);
  if (file.size > maxOctalSize) records.set("size", String(file.size));
  if (Buffer.byteLength(file.name) > maxNameBytes) records.set("path", file.name);
  const own = headerBlock({ ...file, type: "0" });
  if (records.size === 0) return own;
  const body = Buffer.from([...records].map(([key, value]) => paxRecord(key, value)).join(""), "utf8");
  const header = headerBlock({ ...file, name: `PaxHeaders.0/${file.name}`, type: "x", size: body.length });
  return Buffer.concat([header, body, Buffer.alloc(paddingOf(body.length)), own]);
}

/** "LENGTH KEY=VALUE\n", where LENGTH counts itself. */
function paxRecord(key: string, value: string): string {
  const rest = ` ${key}=${value}\n`;
  const restBytes = Buffer.byteLength(rest);
  let length = restBytes + String(restBytes).length;
  if (String(length).length !== String(restBytes).length) length = restBytes + String(length).length;
  return `${length}${rest}`;
}

function headerBlock(entry: TarHeader & { readonly modifiedAt: Date }): Buffer {
  const block = Buffer.alloc(tarBlock);
  const octal = (value: number, offset: number, width: number) =>
    block.write(value.toString(8).padStart(width - 1, "0"), offset, "latin1");
  Buffer.from(entry.name, "utf8").copy(block, 0, 0, maxNameBytes);
  octal(entry.mode & 0o7777, 100, 8);
  octal(0, 108, 8);
  octal(0, 116, 8);
  octal(Math.min(entry.size, maxOctalSize), 124, 12);
  octal(Math.trunc(entry.modifiedAt.getTime() / 1000), 136, 12);
  block.write("        ", 148, "latin1");
  block.write(entry.type, 156, "latin1");
  block.write("ustar\u000000", 257, "latin1");
  octal(
    block.reduce((sum, byte) => sum + byte, 0),
    148,
    7,
  );
  block.write("\u0000 ", 154, "latin1");
  return block;
}

/** Undefined for the zero block that ends an archive. */
export function readHeader(block: Buffer): TarHeader | undefined {
  if (block.every((byte) => byte === 0)) return undefined;
  const stored = parseOctal(block.subarray(148, 156));
  const sum = block.reduce((total, byte, index) => total + (index >= 148 && index < 156 ? 32 : byte), 0);
  if (stored !== sum) throw new Fault("invalid", "invalid snapshot archive: a header has a wrong checksum");
  const prefix =
    block.subarray(257, 262).toString("latin1") === "ustar" ? textOf(block.subarray(345, 500)) : "";
  const name = textOf(block.subarray(0, 100));
  return {
    name: prefix === "" ? name : `${prefix}/${name}`,
    type: block.subarray(156, 157).toString("latin1"),
    size: readSize(block.subarray(124, 136)),
    mode: parseOctal(block.subarray(100, 108)),
  };
}

/** Octal digits, or, with the highest bit set, a binary number. */
function readSize(field: Buffer): number {
  if (((field[0] ?? 0) & 0x80) === 0) return parseOctal(field);
  const value = field.subarray(4).readBigUInt64BE();
  if (value > BigInt(Number.MAX_SAFE_INTEGER))
    throw new Fault("invalid", "invalid snapshot archive: absurd size");
  return Number(value);
}

function parseOctal(field: Buffer): number {
  const text = textOf(field).trim();
  if (!/^[0-7]*$/.test(text))
    throw new Fault("invalid", "invalid snapshot archive: malformed number in a header");
  return text === "" ? 0 : Number.parseInt(text, 8);
}

function textOf(field: Buffer): string {
  const end = field.indexOf(0);
  return field.subarray(0, end < 0 ? field.length : end).toString("utf8");
}

export function readPaxRecords(body: Buffer): Map<string, string> {
  const records = new Map<string, string>();
  let at = 0;
  while (at < body.length) {
    const blank = body.indexOf(32, at);
    const length = Number(body.subarray(at, blank).toString("latin1"));
    if (blank < 0 || !Number.isInteger(length) || length < 5 || at + length > body.length)
      throw new Fault("invalid", "invalid snapshot archive: malformed PAX record");
    const text = body.subarray(blank + 1, at + length - 1).toString("utf8");
    const equals = text.indexOf("=");
    records.set(text.slice(0, equals), text.slice(equals + 1));
    at += length;
  }
  return records;
}
