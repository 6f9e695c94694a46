/**
 * Archives in the "newc" format, which the kernel unpacks as its first root file system. Owners and times are fixed, so
 * that equal input gives equal bytes.
 */
export interface CpioEntry {
  /** Without leading slash. Parents must come before their children. */
  readonly path: string;
  readonly mode: number;
  /** Content of a file, target of a symbolic link. */
  readonly content?: Uint8Array;
}

export const directoryMode = 0o040755;
export const executableMode = 0o100755;
export const fileMode = 0o100644;
export const symlinkMode = 0o120777;

const trailer = "TRAILER!!!";

export function writeCpio(entries: readonly CpioEntry[]): Buffer {
  const parts: Buffer[] = [];
  for (const [index, entry] of entries.entries()) parts.push(...member(index + 1, entry));
  parts.push(...member(0, { path: trailer, mode: 0 }));
  return Buffer.concat(parts);
}

function member(inode: number, entry: CpioEntry): Buffer[] {
  const name = Buffer.from(`${entry.path}\0`);
  const content = entry.content ?? new Uint8Array();
  const fields = [
    inode,
    entry.mode,
    0, // uid
    0, // gid
    1, // links
    0, // mtime
    content.length,
    0, // device major, minor
    0,
    0, // rdev major, minor
    0,
    name.length,
    0, // checksum, unused in this variant
  ];
  const header = `070701${fields.map((value) => value.toString(16).padStart(8, "0")).join("")}`;
  return [padded(Buffer.concat([Buffer.from(header, "latin1"), name])), padded(Buffer.from(content))];
}

function padded(bytes: Buffer): Buffer {
  const rest = bytes.length % 4;
  return rest === 0 ? bytes : Buffer.concat([bytes, Buffer.alloc(4 - rest)]);
}
