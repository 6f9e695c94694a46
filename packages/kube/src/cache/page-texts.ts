/** The pages of a list as text. A page names the next one in its first bytes: it is requested while this one is still read. */
import { Fault } from "@cocoon/core";
import type { ByteStream } from "../client/client.ts";
import { IdleGuard } from "./idle-guard.ts";

export interface PageSource {
  open(token: string | undefined, signal: AbortSignal): Promise<ByteStream>;
  readonly maxBytes: number;
  readonly idleTimeoutMs: number;
}

const mostAhead = 2;

export class PageTexts implements Disposable {
  readonly #source: PageSource;
  readonly #stop = new AbortController();
  readonly #ahead = new Map<string, Promise<string>>();
  #next: string | undefined;

  constructor(source: PageSource) {
    this.#source = source;
  }

  take(token: string | undefined): Promise<string> {
    const ahead = token === undefined ? undefined : this.#ahead.get(token);
    if (token !== undefined) this.#ahead.delete(token);
    const text = ahead ?? this.#fetch(token);
    if (this.#next !== undefined) this.#prefetch(this.#next);
    return text;
  }

  #prefetch(token: string): void {
    this.#next = token;
    if (this.#ahead.size >= mostAhead || this.#ahead.has(token)) return;
    this.#next = undefined;
    const text = this.#fetch(token);
    text.catch(() => {}); // the caller that takes it sees the failure
    this.#ahead.set(token, text);
  }

  async #fetch(token: string | undefined): Promise<string> {
    const { maxBytes, idleTimeoutMs } = this.#source;
    const stream = await this.#source.open(token, this.#stop.signal);
    using guard = new IdleGuard(idleTimeoutMs, () => {
      stream.cancel(new Fault("timeout", `the server was silent for ${idleTimeoutMs} ms`));
    });
    const parts: Buffer[] = [];
    let size = 0;
    for await (const chunk of stream.chunks) {
      guard.touch();
      if (size === 0) this.#peek(chunk);
      parts.push(chunk);
      size += chunk.length;
      if (size > maxBytes) throw new Fault("tooLarge", `a page of the list is longer than ${maxBytes} bytes`);
    }
    return Buffer.concat(parts, size).toString("utf8");
  }

  #peek(firstChunk: Buffer): void {
    const token = beginning.exec(firstChunk.toString("latin1", 0, 4096))?.[1];
    if (token !== undefined) this.#prefetch(token);
  }

  [Symbol.dispose](): void {
    this.#stop.abort(new Error("the list is no longer wanted"));
  }
}

/** How lists of built-in kinds begin. Others have their items first; their pages come one after the other. */
const beginning = /^\{"kind":"\w+","apiVersion":"[\w./]+","metadata":\{[^{}]*"continue":"([\w=-]+)"/;
