/**
 * Archives of COPY steps, between their upload and the build that needs them. They are kept on the replica that took them, for an hour: the
 * client uploads what is not present.
 */
import { createHmac } from "node:crypto";
import { createWriteStream } from "node:fs";
import { mkdir, mkdtemp, rename, rm, stat } from "node:fs/promises";
import type { IncomingMessage } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Transform, type TransformCallback } from "node:stream";
import { pipeline } from "node:stream/promises";
import { ApiError } from "../http/answer.ts";
import { equalTexts } from "../sandboxes/tokens.ts";

export interface BuildFilesOptions {
  readonly seed: string;
  readonly maxBytes: number;
}

export interface FileName {
  readonly namespace: string;
  readonly hash: string;
}

const keepMs = 3_600_000;
const mostFiles = 200;
export const uploadPrefix = "/template-files/";

export class BuildFiles implements AsyncDisposable {
  readonly #options: BuildFilesOptions;
  readonly #timers = new Map<string, NodeJS.Timeout>();
  #directory: Promise<string> | undefined;

  constructor(options: BuildFilesOptions) {
    this.#options = options;
  }

  async has(name: FileName): Promise<boolean> {
    return (await this.tryFind(name)) !== undefined;
  }

  /** Its path; undefined when it was not uploaded here. */
  async tryFind(name: FileName): Promise<string | undefined> {
    const path = await this.#locate(name);
    return this.#timers.has(path) && (await stat(path).catch(() => undefined)) ? path : undefined;
  }

  /** Path of a URL that takes this file without an API key. */
  sign(name: FileName): string {
    return `${uploadPrefix}${name.namespace}/${name.hash}?signature=${this.#compute(name)}`;
  }

  /** Throws 403 for a URL that `sign` did not make. */
  async take(request: IncomingMessage): Promise<void> {
    const url = new URL(request.url ?? "/", "http://gateway");
    const [namespace = "", hash = ""] = url.pathname.slice(uploadPrefix.length).split("/");
    const name = { namespace, hash };
    if (!equalTexts(this.#compute(name), url.searchParams.get("signature") ?? ""))
      throw new ApiError(403, "the signature of the upload is wrong");
    if (this.#timers.size >= mostFiles)
      throw new ApiError(503, "too many uploads wait for their builds", { headers: { "retry-after": "5" } });
    const path = await this.#locate(name);
    const partial = `${path}.${process.hrtime.bigint()}`;
    try {
      await pipeline(request, this.#limit(), createWriteStream(partial, { mode: 0o600 }));
      await rename(partial, path);
    } finally {
      await rm(partial, { force: true });
    }
    clearTimeout(this.#timers.get(path));
    this.#timers.set(path, setTimeout(() => void this.#drop(path), keepMs).unref());
  }

  async #drop(path: string): Promise<void> {
    this.#timers.delete(path);
    await rm(path, { force: true });
  }

  #limit(): Transform {
    const { maxBytes } = this.#options;
    let size = 0;
    return new Transform({
      transform: (chunk: Buffer, _encoding, done: TransformCallback) => {
        size += chunk.length;
        if (size > maxBytes) done(new ApiError(413, `the upload is larger than ${maxBytes} bytes`));
        else done(null, chunk);
      },
    });
  }

  #compute({ namespace, hash }: FileName): string {
    return createHmac("sha256", this.#options.seed).update(`files\0${namespace}\0${hash}`).digest("hex");
  }

  async #locate({ namespace, hash }: FileName): Promise<string> {
    this.#directory ??= mkdtemp(join(tmpdir(), "cocoon-gateway-"));
    const directory = join(await this.#directory, namespace);
    await mkdir(directory, { recursive: true, mode: 0o700 });
    return join(directory, hash);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const timer of this.#timers.values()) clearTimeout(timer);
    if (this.#directory) await rm(await this.#directory, { recursive: true, force: true });
  }
}
