/** Tar headers of regular files: ustar with PAX records (POSIX.1-2001). */
const blockBytes = 512;
const octalSizeLimit = 8 ** 11;

export interface NewTarEntry {
  readonly name: string;
  readonly mode: number;
  /** Bytes of the body. */
  readonly size: number;
  readonly mtime: Date;
  /** Records beyond those that the other members need. */
  readonly pax?: Readonly<Record<string, string>>;
}

/** Header blocks of a regular file, with a PAX header in front when something does not fit otherwise. */
export function formatEntry(entry: NewTarEntry): Buffer {
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

function formatHeader(entry: NewTarEntry, type: string): Buffer {
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
