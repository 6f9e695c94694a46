/**
 * Reads tar archives as a stream: ustar, GNU long names and PAX records. Nothing is written anywhere; every size and count
 * has a limit, and a malformed archive ends in one clear fault.
 */
import { Fault, type FaultCode } from "@cocoon/core";

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
  /** PAX records of this entry. */
  readonly records: ReadonlyMap<string, Buffer>;
  /** Must be read to its end before the next entry; what is left is skipped. */
  readonly content: AsyncIterable<Buffer>;
}

type TarType = "file" | "hardLink" | "symlink" | "character" | "block" | "directory" | "fifo";

export interface TarOptions {
  /** What the archive is, for errors. */
  readonly what: string;
  readonly maxEntries: number;
  /** Content of all entries together. */
  readonly maxBytes: number;
  /** Of one entry's PAX records; default 1 MiB. */
  readonly maxHeaderBytes?: number;
}

const blockBytes = 512;
const defaultMaxHeaderBytes = 1024 * 1024;
const maxPathBytes = 4096;

const typesByFlag: Readonly<Record<string, TarType>> = {
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

export async function* readTar(
  source: AsyncIterable<Uint8Array>,
  options: TarOptions,
): AsyncGenerator<TarEntry, void, undefined> {
  const reader = new TarReader(source, options);
  let [entries, bytes] = [0, 0];
  try {
    for (;;) {
      const entry = await reader.nextEntry();
      if (!entry) return;
      entries += 1;
      bytes += entry.sizeBytes;
      if (entries > options.maxEntries)
        throw reader.fault(`it holds more than ${options.maxEntries} entries`, "tooLarge");
      if (bytes > options.maxBytes)
        throw reader.fault(`it is larger than ${options.maxBytes} bytes, at ${entry.path}`, "tooLarge");
      yield entry;
      for await (const _rest of entry.content);
    }
  } finally {
    await reader.close();
  }
}

interface Header extends Omit<TarEntry, "type" | "records" | "content"> {
  readonly flag: string;
}

class TarReader {
  readonly #chunks: AsyncIterator<Uint8Array>;
  readonly #options: TarOptions;
  #current: Buffer = Buffer.alloc(0);

  constructor(source: AsyncIterable<Uint8Array>, options: TarOptions) {
    this.#chunks = source[Symbol.asyncIterator]();
    this.#options = options;
  }

  fault(why: string, code: FaultCode = "invalid"): Fault {
    return new Fault(code, `invalid ${this.#options.what}: ${why}`);
  }

  async close(): Promise<void> {
    await this.#chunks.return?.();
  }

  /** Undefined at the end of the archive: a block of zeros, or no more bytes. */
  async nextEntry(): Promise<TarEntry | undefined> {
    const records = new Map<string, Buffer>();
    for (;;) {
      const header = await this.#nextHeader();
      if (!header) return undefined;
      if (header.flag === "x")
        for (const [key, value] of await this.#readRecords(header)) records.set(key, value);
      else if (header.flag === "g") await this.#readExtension(header);
      else if (header.flag === "L") await this.#keepName(header, records, "path");
      else if (header.flag === "K") await this.#keepName(header, records, "linkpath");
      else {
        const entry = this.#describe(header, records);
        if (entry) return { ...entry, content: this.#content(entry.sizeBytes) };
        for await (const _skipped of this.#content(this.#size(header, records)));
        records.clear();
      }
    }
  }

  /** A GNU long name; a PAX record of the same entry wins. */
  async #keepName(header: Header, records: Map<string, Buffer>, key: string): Promise<void> {
    const name = await this.#readExtension(header);
    const end = name.indexOf(0);
    if (!records.has(key)) records.set(key, name.subarray(0, end < 0 ? name.length : end));
  }

  async #readExtension({ sizeBytes }: Header): Promise<Buffer> {
    if (sizeBytes > (this.#options.maxHeaderBytes ?? defaultMaxHeaderBytes))
      throw this.fault(`it holds a header of ${sizeBytes} bytes`, "tooLarge");
    return Buffer.concat(await Array.fromAsync(this.#content(sizeBytes)));
  }

  /** "LENGTH KEY=VALUE\n", the length counting the whole record. */
  async #readRecords(header: Header): Promise<Map<string, Buffer>> {
    const data = await this.#readExtension(header);
    const records = new Map<string, Buffer>();
    for (let at = 0; at < data.length;) {
      const blank = data.indexOf(0x20, at);
      const length = blank < 0 ? Number.NaN : Number(data.toString("latin1", at, blank));
      const end = at + length;
      const record = data.subarray(blank + 1, end - 1);
      const equals = record.indexOf(0x3d);
      if (
        !Number.isSafeInteger(length) ||
        length <= 0 ||
        end > data.length ||
        equals < 1 ||
        data[end - 1] !== 0x0a
      )
        throw this.fault("it holds a malformed PAX record");
      records.set(record.toString("utf8", 0, equals), record.subarray(equals + 1));
      at = end;
    }
    return records;
  }

  /** Undefined for kinds of entries that mean nothing on a disk. */
  #describe(header: Header, records: ReadonlyMap<string, Buffer>): Omit<TarEntry, "content"> | undefined {
    if (header.flag === "S" || records.has("GNU.sparse.major"))
      throw this.fault(
        `it holds a sparse entry of GNU tar (${header.path}): repack it without`,
        "notSupported",
      );
    const type = typesByFlag[header.flag];
    if (!type) return undefined;
    const path = records.get("path")?.toString("utf8") ?? header.path;
    const linkTarget = records.get("linkpath")?.toString("utf8") ?? header.linkTarget;
    if (Buffer.byteLength(path) > maxPathBytes || Buffer.byteLength(linkTarget) > maxPathBytes)
      throw this.fault(`it holds a path of more than ${maxPathBytes} bytes`);
    return {
      path,
      type: type === "file" && path.endsWith("/") ? "directory" : type,
      mode: header.mode & 0o7777,
      uid: this.#id("uid", header.uid, records),
      gid: this.#id("gid", header.gid, records),
      mtimeSeconds: Math.max(0, Math.floor(this.#number("mtime", header.mtimeSeconds, records))),
      sizeBytes: type === "file" ? this.#size(header, records) : 0,
      linkTarget,
      deviceMajor: header.deviceMajor,
      deviceMinor: header.deviceMinor,
      records,
    };
  }

  #id(name: "uid" | "gid", inHeader: number, records: ReadonlyMap<string, Buffer>): number {
    const value = this.#number(name, inHeader, records);
    if (!Number.isInteger(value) || value < 0 || value > 0xffffffff)
      throw this.fault(`it holds a ${name} of ${value}`);
    return value;
  }

  #size({ sizeBytes }: Header, records: ReadonlyMap<string, Buffer>): number {
    const value = this.#number("size", sizeBytes, records);
    if (!Number.isSafeInteger(value) || value < 0) throw this.fault(`it holds a size of ${value}`);
    return value;
  }

  #number(key: string, inHeader: number, records: ReadonlyMap<string, Buffer>): number {
    const text = records.get(key)?.toString("latin1");
    if (text === undefined) return inHeader;
    if (!/^-?\d+(?:\.\d+)?$/.test(text)) throw this.fault(`it holds the ${key} "${text}"`);
    return Number(text);
  }

  async #nextHeader(): Promise<Header | undefined> {
    const block = await this.#tryReadBlock();
    if (!block) return undefined;
    if (block.every((byte) => byte === 0)) {
      // The rest is padding, but it counts for the digest or checksum of the whole.
      while (!(await this.#chunks.next()).done);
      return undefined;
    }
    let sum = 8 * 0x20;
    for (const [index, byte] of block.entries()) if (index < 148 || index >= 156) sum += byte;
    if (Number.parseInt(block.toString("latin1", 148, 156).trimStart(), 8) !== sum)
      throw this.fault("not a tar archive, or a damaged one: a header's checksum is wrong");
    return this.#parseHeader(block);
  }

  #parseHeader(block: Buffer): Header {
    const isTar = block.toString("latin1", 257, 262) === "ustar";
    const prefix = isTar && block[262] === 0 ? readText(block.subarray(345, 500)) : "";
    const name = readText(block.subarray(0, 100));
    const field = (start: number, end: number, what: string) => this.#field(block.subarray(start, end), what);
    return {
      flag: String.fromCharCode(block[156] ?? 0),
      path: prefix ? `${prefix}/${name}` : name,
      linkTarget: readText(block.subarray(157, 257)),
      mode: field(100, 108, "mode"),
      uid: field(108, 116, "uid"),
      gid: field(116, 124, "gid"),
      sizeBytes: field(124, 136, "size"),
      mtimeSeconds: field(136, 148, "time"),
      deviceMajor: isTar ? field(329, 337, "device number") : 0,
      deviceMinor: isTar ? field(337, 345, "device number") : 0,
    };
  }

  /** Octal text, or a big-endian number when the first bit is set. */
  #field(field: Buffer, what: string): number {
    const first = field[0] ?? 0;
    if (first & 0x80) {
      const value = field.subarray(1).reduce((sum, byte) => sum * 256 + byte, first & 0x3f);
      if (first & 0x40 || !Number.isSafeInteger(value))
        throw this.fault(`it holds a ${what} that is out of range`);
      return value;
    }
    const text = readText(field).trim();
    if (!/^[0-7]*$/.test(text)) throw this.fault(`it holds the ${what} "${text}"`);
    return text === "" ? 0 : Number.parseInt(text, 8);
  }

  async *#content(sizeBytes: number): AsyncGenerator<Buffer> {
    let left = sizeBytes;
    let padding = (blockBytes - (sizeBytes % blockBytes)) % blockBytes;
    while (left > 0) {
      const chunk = await this.#some(left);
      left -= chunk.length;
      yield chunk;
    }
    while (padding > 0) padding -= (await this.#some(padding)).length;
  }

  async #some(atMost: number): Promise<Buffer> {
    while (this.#current.length === 0) {
      const next = await this.#chunks.next();
      if (next.done) throw this.fault("it ends in the middle of an entry");
      this.#current = asBuffer(next.value);
    }
    const chunk = this.#current.subarray(0, atMost);
    this.#current = this.#current.subarray(chunk.length);
    return chunk;
  }

  async #tryReadBlock(): Promise<Buffer | undefined> {
    while (this.#current.length < blockBytes) {
      const next = await this.#chunks.next();
      if (!next.done) this.#current = Buffer.concat([this.#current, next.value]);
      else if (this.#current.length === 0) return undefined;
      else throw this.fault("it ends in the middle of a header");
    }
    const block = this.#current.subarray(0, blockBytes);
    this.#current = this.#current.subarray(blockBytes);
    return block;
  }
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

function readText(field: Buffer): string {
  const end = field.indexOf(0);
  return field.toString("utf8", 0, end < 0 ? field.length : end);
}
