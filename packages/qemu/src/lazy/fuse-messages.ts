/**
 * The kernel's FUSE protocol, as far as a few read-only files need it: requests in, answers and notices out, as bytes.
 * Little endian; numbers and layouts are those of `linux/fuse.h`. Pure.
 */

/** What is asked, by its number. */
export const opcode = {
  lookup: 1,
  forget: 2,
  getattr: 3,
  setattr: 4,
  open: 14,
  read: 15,
  write: 16,
  statfs: 17,
  release: 18,
  fsync: 20,
  flush: 25,
  init: 26,
  opendir: 27,
  readdir: 28,
  releasedir: 29,
  access: 34,
  interrupt: 36,
  destroy: 38,
  batchForget: 42,
} as const;

export const errno = { noEntry: -2, io: -5, readOnly: -30, notImplemented: -38 } as const;

export const rootNode = 1;
export const pageBytes = 4096;
/** Requests carry at most a name or a page: `max_write` is one page. */
export const requestBytes = 16 * 1024;

const inHeaderBytes = 40;
const outHeaderBytes = 16;
/** Nothing about these files ever changes. */
const validSeconds = 86_400n;
const keepCache = 2;

export interface FuseRequest {
  readonly opcode: number;
  readonly unique: bigint;
  readonly node: number;
  readonly body: Buffer;
}

/** Undefined for bytes that are no whole request. */
export function tryParseRequest(message: Buffer): FuseRequest | undefined {
  if (message.length < inHeaderBytes || message.readUInt32LE(0) !== message.length) return undefined;
  return {
    opcode: message.readUInt32LE(4),
    unique: message.readBigUInt64LE(8),
    node: Number(message.readBigUInt64LE(16)),
    body: message.subarray(inHeaderBytes),
  };
}

export function formatHeader(unique: bigint, error: number, bodyBytes: number): Buffer {
  const header = Buffer.alloc(outHeaderBytes);
  header.writeUInt32LE(outHeaderBytes + bodyBytes, 0);
  header.writeInt32LE(error, 4);
  header.writeBigUInt64LE(unique, 8);
  return header;
}

const flag = { asyncRead: 1, maxPages: 1 << 22, initExt: 1 << 30 } as const;
/** Bit 39 of the flags: the kernel sends requests again that a server before this one took. */
const hasResend = 1 << 7;

export interface InitRequest {
  readonly minor: number;
  readonly flags: number;
  readonly flags2: number;
}

export function parseInit(body: Buffer): InitRequest {
  const read = (at: number) => (body.length >= at + 4 ? body.readUInt32LE(at) : 0);
  return { minor: read(4), flags: read(12), flags2: read(16) };
}

export function canResend({ flags, flags2 }: InitRequest): boolean {
  return (flags & flag.initExt) !== 0 && (flags2 & hasResend) !== 0;
}

export function formatInit({ minor, flags, flags2 }: InitRequest): Buffer {
  const answer = Buffer.alloc(64);
  answer.writeUInt32LE(7, 0);
  answer.writeUInt32LE(Math.min(minor, 45), 4);
  answer.writeUInt32LE(128 * 1024, 8); // max_readahead
  answer.writeUInt32LE(((flag.asyncRead | flag.maxPages | flag.initExt) & flags) >>> 0, 12);
  answer.writeUInt16LE(64, 16); // max_background
  answer.writeUInt16LE(48, 18); // congestion_threshold
  answer.writeUInt32LE(pageBytes, 20); // max_write
  answer.writeUInt32LE(1, 24); // time_gran
  answer.writeUInt16LE(256, 28); // max_pages
  answer.writeUInt32LE(flags2 & hasResend, 32);
  return answer;
}

export interface NodeAttributes {
  readonly inode: bigint;
  readonly size: number;
  readonly mode: number;
  readonly uid: number;
  readonly gid: number;
}

function formatAttributes({ inode, size, mode, uid, gid }: NodeAttributes): Buffer {
  const bytes = Buffer.alloc(88);
  bytes.writeBigUInt64LE(inode, 0);
  bytes.writeBigUInt64LE(BigInt(size), 8);
  bytes.writeBigUInt64LE(BigInt(Math.ceil(size / 512)), 16);
  bytes.writeUInt32LE(mode, 60);
  bytes.writeUInt32LE(1, 64); // nlink
  bytes.writeUInt32LE(uid, 68);
  bytes.writeUInt32LE(gid, 72);
  bytes.writeUInt32LE(pageBytes, 80); // blksize
  return bytes;
}

/** Answer of `lookup`. */
export function formatEntry(node: number, attributes: NodeAttributes): Buffer {
  const entry = Buffer.alloc(40);
  entry.writeBigUInt64LE(BigInt(node), 0);
  entry.writeBigUInt64LE(validSeconds, 16);
  entry.writeBigUInt64LE(validSeconds, 24);
  return Buffer.concat([entry, formatAttributes(attributes)]);
}

/** Answer of `getattr` and `setattr`. */
export function formatAttr(attributes: NodeAttributes): Buffer {
  const valid = Buffer.alloc(16);
  valid.writeBigUInt64LE(validSeconds, 0);
  return Buffer.concat([valid, formatAttributes(attributes)]);
}

export function formatOpen({ directory }: { readonly directory: boolean }): Buffer {
  const answer = Buffer.alloc(16);
  answer.writeUInt32LE(directory ? 0 : keepCache, 8);
  return answer;
}

export function parseName(body: Buffer): string {
  const end = body.indexOf(0);
  return body.toString("utf8", 0, end < 0 ? body.length : end);
}

export interface ReadRequest {
  readonly offset: number;
  readonly size: number;
}

export function parseRead(body: Buffer): ReadRequest {
  if (body.length < 20) return { offset: 0, size: 0 };
  return { offset: Number(body.readBigUInt64LE(8)), size: body.readUInt32LE(16) };
}

/** Puts content into the kernel's page cache that was not asked for. */
export function formatStore(node: number, { offset, size }: ReadRequest): Buffer {
  const message = Buffer.alloc(outHeaderBytes + 24);
  message.writeUInt32LE(message.length + size, 0);
  message.writeInt32LE(4, 4); // FUSE_NOTIFY_STORE
  message.writeBigUInt64LE(BigInt(node), 16);
  message.writeBigUInt64LE(BigInt(offset), 24);
  message.writeUInt32LE(size, 32);
  return message;
}

/** Lets the kernel send again what an earlier server took and did not answer. */
export function formatResend(): Buffer {
  return formatHeader(0n, 7, 0); // FUSE_NOTIFY_RESEND
}
