/**
 * Answers the kernel's requests for a few read-only files. A read of content that is not here yet waits for it and never
 * fails: an error on a page that the guest needs would kill it.
 *
 * QEMU advises huge pages, so the kernel reads megabytes around each fault, whatever readahead is agreed on. Such a read
 * of the memory file that is not all here is refused once (`readahead.ts`): the kernel ignores errors of readahead and asks
 * again for what the guest waits for. The rest of that page's chunk is then put into the page cache without being asked for.
 */
import { read, readSync, writeSync, writev, writevSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { Fault, getErrorMessage, systemCode } from "@cocoon/core";
import {
  errno,
  formatAttr,
  formatEntry,
  formatHeader,
  formatInit,
  formatOpen,
  formatResend,
  formatStore,
  opcode,
  pageBytes,
  parseInit,
  parseName,
  parseRead,
  requestBytes,
  rootNode,
  tryParseRequest,
  type FuseRequest,
  type NodeAttributes,
  type ReadRequest,
} from "./fuse-messages.ts";
import { ReadaheadRefusals } from "./readahead.ts";

export interface ServedFile {
  readonly name: string;
  /** The local file that fills up. */
  readonly fd: number;
  readonly size: number;
  /** Of the local file, so that a mapping of either is found by it. */
  readonly inode: bigint;
  /** Mapped as memory: read page by page. */
  readonly mapped: boolean;
}

export interface ServeOptions {
  readonly files: readonly ServedFile[];
  readonly owner: { readonly uid: number; readonly gid: number };
  readonly chunkBytes: number;
  has(file: number, range: ReadRequest): boolean;
  /** Resolves when the range is in the local file. */
  ensure(file: number, range: ReadRequest): Promise<void>;
  /** A read was answered: what the machine needs. */
  onRead(file: number, range: ReadRequest): void;
  /** An earlier server had this descriptor. */
  readonly resend: boolean;
}

const fixedAnswers: ReadonlyMap<number, Buffer | number | "none"> = new Map<number, Buffer | number | "none">(
  [
    [opcode.open, formatOpen({ directory: false })],
    [opcode.opendir, formatOpen({ directory: true })],
    [opcode.statfs, Buffer.alloc(80)],
    [opcode.readdir, Buffer.alloc(0)],
    [opcode.write, errno.readOnly],
    ...[opcode.release, opcode.releasedir, opcode.flush, opcode.fsync, opcode.access, opcode.destroy].map(
      (each) => [each, 0] as const,
    ),
    // An interrupted read is answered all the same: an error would reach the guest.
    ...[opcode.forget, opcode.batchForget, opcode.interrupt].map((each) => [each, "none"] as const),
  ],
);

/** Each blocks one thread of the pool. */
const readers = 3;
const retryMs = 500;

export class FuseServer {
  /** Resolves when the mount is gone. */
  readonly ended: Promise<void>;
  /** Why this host's own disk does not take or give content; empty when it does. */
  problem = "";
  readonly #fd: number;
  readonly #options: ServeOptions;
  readonly #refusals: ReadaheadRefusals;
  readonly #storedPlaces = new Set<string>();
  readonly #end = Promise.withResolvers<void>();
  /** Content that is being put into the page cache. */
  readonly #storing = new Set<Promise<void>>();
  #isQuiet = false;
  #hasEnded = false;

  constructor(fd: number, options: ServeOptions) {
    this.#fd = fd;
    this.#options = options;
    this.#refusals = new ReadaheadRefusals({ tookOver: options.resend });
    this.ended = this.#end.promise;
  }

  start(): void {
    // Filled, so that its pages exist: the kernel ends a request with an error, which kills the guest, when it cannot copy it
    // into memory that is still to be made for a server that is being killed.
    for (let each = 0; each < readers; each += 1) this.#pump(Buffer.alloc(requestBytes, 1));
    if (this.#options.resend) writeSync(this.#fd, formatResend());
  }

  /** Nothing is put into the page cache any more; requests are answered as before. False when the mount is gone. */
  async quiesce(): Promise<boolean> {
    this.#isQuiet = true;
    await Promise.all(this.#storing);
    return !this.#hasEnded;
  }

  #finish(): void {
    this.#hasEnded = true;
    this.#end.resolve();
  }

  #pump(buffer: Buffer): void {
    read(this.#fd, buffer, 0, buffer.length, null, (error, count) => {
      if (error) {
        // ENOENT: the request was withdrawn before it was read.
        if (["EINTR", "EAGAIN", "ENOENT"].includes(error.code ?? "")) this.#pump(buffer);
        else this.#finish();
        return;
      }
      const request = tryParseRequest(Buffer.from(buffer.subarray(0, count)));
      this.#pump(buffer);
      if (request) void this.#handle(request);
    });
  }

  async #handle(request: FuseRequest): Promise<void> {
    if (request.opcode === opcode.read) return this.#read(request);
    const answer = this.#answer(request);
    if (answer === "none") return;
    if (typeof answer === "number") this.#reply(request, answer);
    else this.#reply(request, 0, answer);
  }

  #answer({ opcode: asked, node, body }: FuseRequest): Buffer | number | "none" {
    if (asked === opcode.init) return formatInit(parseInit(body));
    if (asked === opcode.lookup) return this.#lookup(parseName(body));
    if (asked === opcode.getattr || asked === opcode.setattr) {
      const attributes = this.#attributes(node);
      return attributes ? formatAttr(attributes) : errno.noEntry;
    }
    return fixedAnswers.get(asked) ?? errno.notImplemented;
  }

  #lookup(name: string): Buffer | number {
    const number = this.#options.files.findIndex((each) => each.name === name);
    const attributes = this.#attributes(number + 2);
    return number >= 0 && attributes ? formatEntry(number + 2, attributes) : errno.noEntry;
  }

  #attributes(node: number): NodeAttributes | undefined {
    const { files, owner } = this.#options;
    if (node === rootNode) return { inode: 1n, size: 0, mode: 0o40755, uid: 0, gid: 0 };
    const file = files[node - 2];
    return file && { inode: file.inode, size: file.size, mode: 0o100600, ...owner };
  }

  async #read(request: FuseRequest): Promise<void> {
    const number = request.node - 2;
    const file = this.#options.files[number];
    if (!file) return this.#reply(request, errno.noEntry);
    const { offset, size } = parseRead(request.body);
    const range = { offset, size: Math.max(0, Math.min(size, file.size - offset)) };
    if (file.mapped && !this.#options.has(number, range) && this.#refusals.refuse(number, range))
      return this.#reply(request, errno.io);
    this.#reply(request, 0, await this.#readContent(number, file, range));
    this.#options.onRead(number, range);
    if (file.mapped && range.size === pageBytes) this.#storeChunk(number, file, offset);
  }

  /** Never fails: an error would kill the guest, and what this host's disk refuses now it may take later. */
  // oxlint-disable-next-line max-params -- a file, its number and a place in it
  async #readContent(number: number, file: ServedFile, range: ReadRequest): Promise<Buffer> {
    for (;;) {
      try {
        if (!this.#options.has(number, range)) await this.#options.ensure(number, range);
        const content = readRange(file, range);
        this.problem = "";
        return content;
      } catch (error) {
        this.problem = `${file.name}: ${getErrorMessage(error)}`;
      }
      await pause(retryMs);
    }
  }

  // oxlint-disable-next-line max-params -- a file, its number and a place in it
  #storeChunk(number: number, file: ServedFile, page: number): void {
    const start = page - (page % this.#options.chunkBytes);
    const end = Math.min(start + this.#options.chunkBytes, file.size);
    const place = `${file.name} ${start}`;
    if (this.#isQuiet || this.#storedPlaces.has(place)) return;
    this.#storedPlaces.add(place);
    for (const [from, to] of [
      [start, page],
      [page + pageBytes, end],
    ] as const) {
      if (to <= from) continue;
      const range = { offset: from, size: to - from };
      // Not synchronous: it waits for pages locked by reads that this very process has to answer.
      const stored = Promise.withResolvers<void>();
      this.#storing.add(stored.promise);
      writev(this.#fd, [formatStore(number + 2, range), readRange(file, range)], () => {
        this.#storing.delete(stored.promise);
        stored.resolve();
      });
    }
  }

  #reply({ unique }: FuseRequest, error: number, body: Buffer = Buffer.alloc(0)): void {
    try {
      writevSync(this.#fd, [formatHeader(unique, error, body.length), body]);
    } catch (problem) {
      // ENOENT: nothing waits for it any more. Otherwise the connection is gone, and so are we.
      if (systemCode(problem) !== "ENOENT") this.#finish();
    }
  }
}

function readRange({ fd }: ServedFile, { offset, size }: ReadRequest): Buffer {
  const content = Buffer.alloc(size);
  for (let done = 0; done < size;) {
    const count = readSync(fd, content, done, size - done, offset + done);
    if (count === 0) throw new Fault("internal", `the local file ends at ${offset + done}`);
    done += count;
  }
  return content;
}
