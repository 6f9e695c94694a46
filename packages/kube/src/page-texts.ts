/** The pages of a list as text, with the next one on its way while one is worked on. */
import { Fault } from "@cocoon/core";
import type { ByteStream } from "./client.ts";
import { IdleGuard } from "./idle-guard.ts";

export interface PageSource {
  /** Asks for the page that a continue token names, or for the first. */
  open(token: string | undefined, signal: AbortSignal): Promise<ByteStream>;
  readonly maxBytes: number;
  readonly idleTimeoutMs: number;
}

export class PageTexts implements Disposable {
  readonly #source: PageSource;
  readonly #stop = new AbortController();
  #ahead: { readonly token: string; readonly text: Promise<string> } | undefined;

  constructor(source: PageSource) {
    this.#source = source;
  }

  take(token: string | undefined): Promise<string> {
    const ahead = this.#ahead;
    this.#ahead = undefined;
    return ahead !== undefined && ahead.token === token ? ahead.text : this.#fetch(token);
  }

  prefetch(token: string): void {
    const text = this.#fetch(token);
    text.catch(() => {}); // whoever takes it sees the failure
    this.#ahead = { token, text };
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
      parts.push(chunk);
      size += chunk.length;
      if (size > maxBytes) throw new Fault("tooLarge", `a page of the list is longer than ${maxBytes} bytes`);
    }
    return Buffer.concat(parts, size).toString("utf8");
  }

  /** Lets go of what is still on its way. */
  [Symbol.dispose](): void {
    this.#stop.abort(new Error("the list is no longer wanted"));
  }
}
