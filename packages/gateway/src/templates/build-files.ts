/** Archives of COPY steps: uploads by signed URLs, with limits, and what is kept of them for the builds of any replica. */
import { createHmac } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { getErrorMessage, type Abortable, type Logger } from "@cocoon/core";
import { MemoryBudget, type Repository } from "@cocoon/oci";
import { ApiError } from "../http/answer.ts";
import { equalTexts } from "../sandboxes/tokens.ts";
import { FileArchives, type ArchiveName } from "./file-archives.ts";

export interface BuildFilesOptions {
  readonly seed: string;
  /** Of one upload, and of all that wait in a namespace. */
  readonly maxBytes: number;
  /** Where they are kept; without it COPY is not offered. */
  readonly repository: Repository | undefined;
  readonly log: Logger;
  readonly now?: () => number;
}

const mostFiles = 200;
const pieceBytes = 4 * 1024 * 1024;
/** For the pieces of all uploads that a replica takes at the same time. */
const memoryBytes = 16 * pieceBytes;
/** A client that needs longer for one piece holds up the others. */
const pieceMs = 120_000;
const answerMs = 60_000;
const sweepMs = 3_600_000;
export const uploadPrefix = "/template-files/";

export class BuildFiles implements Disposable {
  readonly #options: BuildFilesOptions;
  readonly #archives: FileArchives | undefined;
  readonly #memory = new MemoryBudget(memoryBytes);
  readonly #timer: NodeJS.Timeout | undefined;

  constructor(options: BuildFilesOptions) {
    const { repository, log, now } = options;
    this.#options = options;
    if (!repository) return;
    this.#archives = new FileArchives(repository, log, now);
    this.#timer = setInterval(() => void this.#trySweep(), sweepMs).unref();
  }

  async has(name: ArchiveName, options: Abortable): Promise<boolean> {
    return this.#requireArchives().has(name, options);
  }

  /** Its bytes; undefined when it was not uploaded. */
  async tryOpen(name: ArchiveName, options: Abortable): Promise<AsyncIterable<Uint8Array> | undefined> {
    return this.#requireArchives().tryOpen(name, options);
  }

  /** Path of a URL that takes this file without an API key. */
  sign(name: ArchiveName): string {
    return `${uploadPrefix}${name.namespace}/${name.hash}?signature=${this.#compute(name)}`;
  }

  /** Throws 403 for a URL that `sign` did not make. */
  async take(request: IncomingMessage): Promise<void> {
    const url = new URL(request.url ?? "/", "http://gateway");
    const [namespace = "", hash = ""] = url.pathname.slice(uploadPrefix.length).split("/");
    const name = { namespace, hash };
    if (!equalTexts(this.#compute(name), url.searchParams.get("signature") ?? ""))
      throw new ApiError(403, "the signature of the upload is wrong");
    const archives = this.#requireArchives();
    const left = await this.#findRoom(archives, namespace);
    if (Number(request.headers["content-length"] ?? 0) > left) throw tooLarge(left);
    const gone = new AbortController();
    request.on("close", () => request.complete || gone.abort(new ApiError(400, "the upload was cut")));
    await archives.put(name, this.#cutPieces(request, { left, signal: gone.signal }), gone);
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }

  #requireArchives(): FileArchives {
    if (this.#archives) return this.#archives;
    throw new ApiError(501, "COPY: this gateway has no registry for files of builds; set OCI_REGISTRY");
  }

  /** Bytes that the namespace may still upload. */
  async #findRoom(archives: FileArchives, namespace: string): Promise<number> {
    const kept = await archives.sweep({ namespace, signal: AbortSignal.timeout(answerMs) });
    const bytes = kept.reduce((sum, each) => sum + each.bytes, 0);
    if (kept.length < mostFiles && bytes < this.#options.maxBytes) return this.#options.maxBytes - bytes;
    throw new ApiError(
      503,
      `namespace ${namespace} has ${kept.length} uploads of ${bytes} bytes for builds; each is kept for two hours`,
      { headers: { "retry-after": "600" } },
    );
  }

  async *#cutPieces(
    request: IncomingMessage,
    { left, signal }: Abortable & { readonly left: number },
  ): AsyncGenerator<Buffer> {
    using _room = await this.#memory.acquire(pieceBytes, { signal });
    const late = setTimeout(() => request.destroy(new Error("the upload is too slow")), pieceMs);
    using _timer = { [Symbol.dispose]: () => clearTimeout(late) };
    let parts: Buffer[] = [];
    let [length, size] = [0, 0];
    for await (const part of request as AsyncIterable<Buffer>) {
      parts.push(part);
      length += part.length;
      size += part.length;
      if (size > left) throw tooLarge(left);
      if (length < pieceBytes) continue;
      yield Buffer.concat(parts);
      late.refresh();
      [parts, length] = [[], 0];
    }
    if (length > 0) yield Buffer.concat(parts);
  }

  async #trySweep(): Promise<void> {
    try {
      await this.#archives?.sweep({ signal: AbortSignal.timeout(answerMs) });
    } catch (error) {
      this.#options.log.warn({ error: getErrorMessage(error) }, "archives of builds were not looked through");
    }
  }

  #compute({ namespace, hash }: ArchiveName): string {
    return createHmac("sha256", this.#options.seed).update(`files\0${namespace}\0${hash}`).digest("hex");
  }
}

function tooLarge(left: number): ApiError {
  return new ApiError(413, `the upload is larger than ${left} bytes`);
}
