/**
 * Reads tar archives as a stream: ustar, the GNU long names and the PAX extensions that container layers use. Nothing is
 * written anywhere; every size and count has a limit, and an archive that is malformed ends in one clear fault.
 */
import { Fault } from "@cocoon/core";

export interface TarEntry {
  /** As written in the archive. */
  readonly path: string;
  readonly type: TarType;
  readonly mode: number;
  readonly uid: number;
  readonly gid: number;
  readonly mtimeSeconds: number;
  readonly sizeBytes: number;
  readonly linkTarget: string;
  readonly deviceMajor: number;
  readonly deviceMinor: number;
  readonly xattrs: ReadonlyMap<string, Buffer>;
  /** Must be read to its end before the next entry; what is left is skipped. */
  readonly content: AsyncIterable<Buffer>;
}

export type TarType = "file" | "hardLink" | "symlink" | "character" | "block" | "directory" | "fifo";

export interface TarLimits {
  readonly maxEntries: number;
  /** Content of all entries together. */
  readonly maxBytes: number;
}

const blockBytes = 512;
const maxHeaderBytes = 1024 * 1024;
const maxPathBytes = 4096;

const typeOf: Readonly<Record<string, TarType>> = {
  "0": "file",
  "\0": "file",
  "7": "file",
  "1": "hardLink",
  "2": "symlink",
  "3": "character",
  "4": "block",
  "5": "directory",
  "6": "fifo",
};

export async function* readTar(source: AsyncIterable<Buffer>, limits: TarLimits): AsyncGenerator<TarEntry> {
  const reader = new BlockReader(source);
  let extension: Extension = emptyExtension;
  let entries = 0;
  let bytes = 0;
  for (;;) {
    const header = await reader.tryHeader();
    if (!header) return;
    if (isExtension(header.flag)) {
      extension = await readExtension(reader, header, extension);
      continue;
    }
    const entry = describe(header, extension);
    extension = emptyExtension;
    if (entry === undefined) {
      await reader.skip(header.sizeBytes);
      continue;
    }
    entries += 1;
    bytes += entry.sizeBytes;
    if (entries > limits.maxEntries) {
      throw new Fault("tooLarge", `the archive holds more than ${limits.maxEntries} entries`);
    }
    if (bytes > limits.maxBytes) {
      throw new Fault(
        "tooLarge",
        `the archive's content is larger than ${limits.maxBytes} bytes, at ${entry.path}`,
      );
    }
    const content = reader.content(entry.sizeBytes);
    yield { ...entry, content };
    for await (const _rest of content);
  }
}

interface Header {
  readonly flag: string;
  readonly name: string;
  readonly prefix: string;
  readonly linkName: string;
  readonly mode: number;
  readonly uid: number;
  readonly gid: number;
  readonly sizeBytes: number;
  readonly mtimeSeconds: number;
  readonly deviceMajor: number;
  readonly deviceMinor: number;
}

/** What the headers before an entry said about it. */
interface Extension {
  readonly records: ReadonlyMap<string, Buffer>;
  readonly longName?: string;
  readonly longLink?: string;
}

const emptyExtension: Extension = { records: new Map() };

function isExtension(flag: string): boolean {
  return flag === "x" || flag === "g" || flag === "L" || flag === "K";
}

async function readExtension(reader: BlockReader, header: Header, known: Extension): Promise<Extension> {
  if (header.sizeBytes > maxHeaderBytes) {
    throw new Fault("tooLarge", `the archive holds a header of ${header.sizeBytes} bytes`);
  }
  const data = Buffer.concat(await Array.fromAsync(reader.content(header.sizeBytes)));
  // A global header is about the archive; the keys that matter to us do not occur in it.
  if (header.flag === "g") return known;
  if (header.flag === "L") return { ...known, longName: cString(data) };
  if (header.flag === "K") return { ...known, longLink: cString(data) };
  return { ...known, records: new Map([...known.records, ...paxRecords(data)]) };
}

/** "LENGTH KEY=VALUE\n", the length counting the whole record. */
function paxRecords(data: Buffer): Map<string, Buffer> {
  const records = new Map<string, Buffer>();
  let at = 0;
  while (at < data.length) {
    const blank = data.indexOf(0x20, at);
    const length = blank < 0 ? Number.NaN : Number(data.subarray(at, blank).toString("latin1"));
    const record = data.subarray(blank + 1, at + length);
    const equals = record.indexOf(0x3d);
    if (!Number.isInteger(length) || length <= 0 || at + length > data.length || equals < 1) {
      throw new Fault("invalid", "the archive holds a malformed extended header");
    }
    records.set(record.subarray(0, equals).toString("utf8"), record.subarray(equals + 1, record.length - 1));
    at += length;
  }
  return records;
}

/** Undefined for kinds of entries that mean nothing on a disk. */
function describe(header: Header, extension: Extension): Omit<TarEntry, "content"> | undefined {
  if (header.flag === "S" || extension.records.has("GNU.sparse.major")) {
    throw new Fault("notSupported", `the archive holds a sparse entry (${header.name}): repack it without`);
  }
  const type = typeOf[header.flag];
  if (!type) return undefined;
  const number = (key: string, otherwise: number) => paxNumber(extension.records.get(key), otherwise);
  const { path, linkTarget } = namesOf(header, extension);
  return {
    path,
    type: type === "file" && path.endsWith("/") ? "directory" : type,
    mode: header.mode & 0o7777,
    uid: id("uid", number("uid", header.uid)),
    gid: id("gid", number("gid", header.gid)),
    mtimeSeconds: Math.max(0, Math.floor(number("mtime", header.mtimeSeconds))),
    sizeBytes: type === "file" ? size(number("size", header.sizeBytes)) : 0,
    linkTarget,
    deviceMajor: header.deviceMajor,
    deviceMinor: header.deviceMinor,
    xattrs: xattrsOf(extension.records),
  };
}

function namesOf(
  header: Header,
  extension: Extension,
): { readonly path: string; readonly linkTarget: string } {
  const text = (key: string) => extension.records.get(key)?.toString("utf8");
  const own = header.prefix ? `${header.prefix}/${header.name}` : header.name;
  const path = text("path") ?? extension.longName ?? own;
  const linkTarget = text("linkpath") ?? extension.longLink ?? header.linkName;
  if (Buffer.byteLength(path) > maxPathBytes || Buffer.byteLength(linkTarget) > maxPathBytes) {
    throw new Fault("invalid", `the archive holds a path of more than ${maxPathBytes} bytes`);
  }
  return { path, linkTarget };
}

function id(name: string, value: number): number {
  if (!Number.isInteger(value) || value < 0 || value > 0xffffffff)
    throw new Fault("invalid", `the archive holds a ${name} of ${value}`);
  return value;
}

function size(value: number): number {
  if (!Number.isSafeInteger(value) || value < 0)
    throw new Fault("invalid", `the archive holds a size of ${value}`);
  return value;
}

function paxNumber(value: Buffer | undefined, otherwise: number): number {
  if (value === undefined) return otherwise;
  const number = Number(value.toString("latin1"));
  if (!Number.isFinite(number)) {
    throw new Fault("invalid", `the archive holds the number "${value.toString("latin1")}"`);
  }
  return number;
}

const xattrPrefix = "SCHILY.xattr.";

function xattrsOf(records: ReadonlyMap<string, Buffer>): Map<string, Buffer> {
  return new Map(
    [...records]
      .filter(([key]) => key.startsWith(xattrPrefix))
      .map(([key, value]) => [key.slice(xattrPrefix.length), Buffer.from(value)]),
  );
}

function cString(bytes: Buffer): string {
  const end = bytes.indexOf(0);
  return bytes.subarray(0, end < 0 ? bytes.length : end).toString("utf8");
}

/** Octal text, or a big-endian number when the first bit is set. */
function headerNumber(field: Buffer, name: string): number {
  const first = field[0] ?? 0;
  if (first & 0x80) {
    let value = first & 0x3f;
    for (const byte of field.subarray(1)) value = value * 256 + byte;
    if (first & 0x40 || !Number.isSafeInteger(value)) {
      throw new Fault("invalid", `the archive holds a ${name} that is out of range`);
    }
    return value;
  }
  const text = field
    .toString("latin1")
    .replace(/[\0 ]+$/, "")
    .trimStart();
  if (text === "") return 0;
  if (!/^[0-7]+$/.test(text)) throw new Fault("invalid", `the archive holds the ${name} "${text}"`);
  return Number.parseInt(text, 8);
}

function parseHeader(block: Buffer): Header {
  const stored = Number.parseInt(block.subarray(148, 156).toString("latin1").trimStart(), 8);
  let sum = 8 * 0x20;
  for (const [index, byte] of block.entries()) if (index < 148 || index >= 156) sum += byte;
  if (stored !== sum)
    throw new Fault("invalid", "not a tar archive, or a damaged one: a header's checksum is wrong");
  const isUstar = block.subarray(257, 263).toString("latin1") === "ustar\0";
  const isGnu = block.subarray(257, 262).toString("latin1") === "ustar";
  return {
    flag: String.fromCharCode(block[156] ?? 0),
    name: cString(block.subarray(0, 100)),
    prefix: isUstar ? cString(block.subarray(345, 500)) : "",
    linkName: cString(block.subarray(157, 257)),
    mode: headerNumber(block.subarray(100, 108), "mode"),
    uid: headerNumber(block.subarray(108, 116), "uid"),
    gid: headerNumber(block.subarray(116, 124), "gid"),
    sizeBytes: headerNumber(block.subarray(124, 136), "size"),
    mtimeSeconds: headerNumber(block.subarray(136, 148), "time"),
    deviceMajor: isUstar || isGnu ? headerNumber(block.subarray(329, 337), "device number") : 0,
    deviceMinor: isUstar || isGnu ? headerNumber(block.subarray(337, 345), "device number") : 0,
  };
}

class BlockReader {
  readonly #chunks: AsyncIterator<Buffer>;
  #current: Buffer = Buffer.alloc(0);

  constructor(source: AsyncIterable<Buffer>) {
    this.#chunks = source[Symbol.asyncIterator]();
  }

  /** Undefined at the end of the archive: a block of zeros, or simply no more bytes. */
  async tryHeader(): Promise<Header | undefined> {
    const block = await this.#tryRead(blockBytes);
    if (!block) return undefined;
    if (block.every((byte) => byte === 0)) {
      await this.#drain();
      return undefined;
    }
    return parseHeader(block);
  }

  async skip(sizeBytes: number): Promise<void> {
    for await (const _chunk of this.content(sizeBytes));
  }

  async *content(sizeBytes: number): AsyncGenerator<Buffer> {
    let left = sizeBytes;
    let padding = (blockBytes - (sizeBytes % blockBytes)) % blockBytes;
    while (left > 0) {
      const chunk = await this.#some(left);
      left -= chunk.length;
      yield chunk;
    }
    while (padding > 0) padding -= (await this.#some(padding)).length;
  }

  /** The rest is padding, but it must be read: it counts for the archive's digest. */
  async #drain(): Promise<void> {
    while (!(await this.#chunks.next()).done);
  }

  async #some(atMost: number): Promise<Buffer> {
    while (this.#current.length === 0) {
      const next = await this.#chunks.next();
      if (next.done) throw new Fault("invalid", "the archive ends in the middle of an entry");
      this.#current = next.value;
    }
    const chunk = this.#current.subarray(0, atMost);
    this.#current = this.#current.subarray(chunk.length);
    return chunk;
  }

  async #tryRead(bytes: number): Promise<Buffer | undefined> {
    while (this.#current.length < bytes) {
      const next = await this.#chunks.next();
      if (next.done) {
        if (this.#current.length === 0) return undefined;
        throw new Fault("invalid", "the archive ends in the middle of a header");
      }
      this.#current = this.#current.length === 0 ? next.value : Buffer.concat([this.#current, next.value]);
    }
    const block = this.#current.subarray(0, bytes);
    this.#current = this.#current.subarray(bytes);
    return block;
  }
}
