/**
 * A disk in memory that forgets what was not flushed, served by NBD on a Unix socket. Standard input: one JSON line
 * `{"path":…,"keep":0…1,"seed":…}` writes what would be on the disk after a power cut now to a file; of what was not flushed
 * each block survives with probability `keep`. Answers with one line each.
 */
import { open } from "node:fs/promises";
import { createServer, type Socket } from "node:net";
import { createInterface } from "node:readline";

const [socketPath = "", sizeText = "0"] = process.argv.slice(2);
const size = Number(sizeText);
const blockBytes = 4096;
const current = Buffer.alloc(size);
const durable = Buffer.alloc(size);
/** Blocks that differ, or may. */
const unflushed = new Set<number>();

const command = { read: 0, write: 1, disconnect: 2, flush: 3, trim: 4, writeZeroes: 6 } as const;
const optionMagic = Buffer.from("IHAVEOPT", "latin1");
const replyMagic = 0x3e889045565a9n;
const [optionAbort, optionGo] = [2, 7];
const [repAck, repInfo, repUnsupported] = [1, 3, 0x80000001];
const forceUnitAccess = 1;
/** Flags present, flush, force unit access, trim, write zeroes. */
const transmissionFlags = 1 | 4 | 8 | 32 | 64;

/** Reads exact numbers of bytes. */
class Reader {
  readonly #chunks: AsyncIterator<Buffer>;
  #rest: Buffer = Buffer.alloc(0);

  constructor(socket: Socket) {
    this.#chunks = socket[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
  }

  async take(bytes: number): Promise<Buffer> {
    const parts = [this.#rest];
    let have = this.#rest.length;
    while (have < bytes) {
      const next = await this.#chunks.next();
      if (next.done) throw new Error("connection closed");
      parts.push(next.value);
      have += next.value.length;
    }
    const all = Buffer.concat(parts);
    this.#rest = all.subarray(bytes);
    return all.subarray(0, bytes);
  }
}

async function negotiate(socket: Socket, reader: Reader): Promise<boolean> {
  socket.write(Buffer.concat([Buffer.from("NBDMAGICIHAVEOPT", "latin1"), Buffer.from([0, 3])]));
  await reader.take(4);
  for (;;) {
    const head = await reader.take(16);
    if (!head.subarray(0, 8).equals(optionMagic)) throw new Error("not an option");
    const option = head.readUInt32BE(8);
    await reader.take(head.readUInt32BE(12));
    if (option === optionGo) {
      const info = Buffer.alloc(12);
      info.writeBigUInt64BE(BigInt(size), 2);
      info.writeUInt16BE(transmissionFlags, 10);
      reply(socket, option, repInfo, info);
      reply(socket, option, repAck);
      return true;
    }
    reply(socket, option, option === optionAbort ? repAck : repUnsupported);
    if (option === optionAbort) return false;
  }
}

// oxlint-disable-next-line max-params -- the fields of one reply
function reply(socket: Socket, option: number, kind: number, data = Buffer.alloc(0)): void {
  const head = Buffer.alloc(20);
  head.writeBigUInt64BE(replyMagic, 0);
  head.writeUInt32BE(option, 8);
  head.writeUInt32BE(kind, 12);
  head.writeUInt32BE(data.length, 16);
  socket.write(Buffer.concat([head, data]));
}

function listBlocks(offset: number, length: number): number[] {
  const first = Math.floor(offset / blockBytes);
  const last = Math.floor((offset + length - 1) / blockBytes);
  return Array.from({ length: last - first + 1 }, (_each, index) => first + index);
}

function persist(blocks: Iterable<number>): void {
  for (const block of blocks) {
    current.copy(durable, block * blockBytes, block * blockBytes, (block + 1) * blockBytes);
    unflushed.delete(block);
  }
}

async function serve(socket: Socket): Promise<void> {
  const reader = new Reader(socket);
  if (!(await negotiate(socket, reader))) return;
  for (;;) {
    const request = await reader.take(28);
    const [flags, type] = [request.readUInt16BE(4), request.readUInt16BE(6)];
    const [offset, length] = [Number(request.readBigUInt64BE(16)), request.readUInt32BE(24)];
    if (type === command.disconnect) return;
    const head = Buffer.alloc(16);
    head.writeUInt32BE(0x67446698, 0);
    request.copy(head, 8, 8, 16);
    if (type === command.write) (await reader.take(length)).copy(current, offset);
    if (type === command.trim || type === command.writeZeroes) current.fill(0, offset, offset + length);
    if (type === command.flush) persist(unflushed);
    else if (type !== command.read) {
      for (const block of listBlocks(offset, length)) unflushed.add(block);
      if ((flags & forceUnitAccess) !== 0) persist(listBlocks(offset, length));
    }
    socket.write(head);
    if (type === command.read) socket.write(Buffer.from(current.subarray(offset, offset + length)));
  }
}

async function cut({ path, keep, seed }: { path: string; keep: number; seed: number }): Promise<void> {
  let state = seed >>> 0;
  const random = () => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) / 2 ** 32;
  const survivors = new Set([...unflushed].filter(() => random() < keep));
  await using file = await open(path, "wx");
  await file.truncate(size);
  const zero = Buffer.alloc(blockBytes);
  for (let block = 0; block < size / blockBytes; block += 1) {
    const source = survivors.has(block) ? current : durable;
    const content = source.subarray(block * blockBytes, (block + 1) * blockBytes);
    if (!content.equals(zero)) await file.write(content, 0, blockBytes, block * blockBytes);
  }
  console.log(JSON.stringify({ unflushed: unflushed.size, survived: survivors.size }));
}

const server = createServer((socket) => {
  serve(socket).catch(() => socket.destroy());
}).listen(socketPath, () => console.log("listening"));
createInterface({ input: process.stdin }).on("line", (line) => {
  void cut(JSON.parse(line) as Parameters<typeof cut>[0]);
});
process.stdin.on("end", () => server.close());
