/** `multipart/form-data`, part by part, without keeping a file in memory. */
import { ApiError } from "../http/answer.ts";

export interface Part {
  readonly name: string;
  readonly filename: string | undefined;
  readonly content: AsyncIterable<Buffer>;
}

const maxHeaderBytes = 16 * 1024;
const maxParts = 1_000;

export function readBoundary(contentType: string): string {
  const match = /;\s*boundary=(?:"([^"]{1,200})"|([^;\s]{1,200}))/i.exec(contentType);
  const boundary = match?.[1] ?? match?.[2];
  if (!boundary) throw new ApiError(400, "Content-Type: multipart/form-data needs a boundary");
  return boundary;
}

/** The content of a part must be read, or at least begun, before the next part is asked for: what is left of it is skipped. */
export async function* readParts(source: AsyncIterable<Buffer>, boundary: string): AsyncGenerator<Part> {
  const reader = new PartReader(source, boundary);
  await reader.skipPreamble();
  for (let count = 0; await reader.hasPart(); count += 1) {
    if (count >= maxParts) throw new ApiError(400, `more than ${maxParts} parts in one request`);
    const { name, filename } = parseDisposition(await reader.readHeaders());
    const content = reader.content();
    yield { name, filename, content };
    for await (const _rest of content) continue;
  }
}

class PartReader {
  readonly #source: AsyncIterator<Buffer>;
  readonly #delimiter: Buffer;
  #held: Buffer = Buffer.from("\r\n"); // the first delimiter may stand at the very beginning
  #ended = false;

  constructor(source: AsyncIterable<Buffer>, boundary: string) {
    this.#source = source[Symbol.asyncIterator]();
    this.#delimiter = Buffer.from(`\r\n--${boundary}`);
  }

  async #more(): Promise<boolean> {
    const next = await this.#source.next();
    if (next.done) this.#ended = true;
    else this.#held = this.#held.length === 0 ? next.value : Buffer.concat([this.#held, next.value]);
    return !this.#ended;
  }

  async skipPreamble(): Promise<void> {
    for await (const _piece of this.content()) continue;
  }

  /** After a delimiter: CRLF begins a part, "--" ends the body. */
  async hasPart(): Promise<boolean> {
    while (this.#held.length < 2) if (!(await this.#more())) throw cutShort();
    const mark = this.#held.toString("latin1", 0, 2);
    this.#held = this.#held.subarray(2);
    if (mark !== "\r\n" && mark !== "--") throw new ApiError(400, "malformed multipart body");
    return mark === "\r\n";
  }

  async readHeaders(): Promise<string> {
    for (;;) {
      const end = this.#held.indexOf("\r\n\r\n");
      if (end >= 0) {
        const text = this.#held.toString("utf8", 0, end);
        this.#held = this.#held.subarray(end + 4);
        return text;
      }
      if (this.#held.length > maxHeaderBytes) throw new ApiError(400, "the headers of a part are too long");
      if (!(await this.#more())) throw cutShort();
    }
  }

  /** Up to the next delimiter, which is taken too. */
  async *content(): AsyncGenerator<Buffer> {
    for (;;) {
      const end = this.#held.indexOf(this.#delimiter);
      if (end >= 0) {
        const last = this.#held.subarray(0, end);
        this.#held = this.#held.subarray(end + this.#delimiter.length);
        if (last.length > 0) yield last;
        return;
      }
      const safe = this.#held.length - this.#delimiter.length + 1;
      if (safe > 0) {
        const piece = this.#held.subarray(0, safe);
        this.#held = this.#held.subarray(safe);
        yield piece;
      }
      if (!(await this.#more())) throw cutShort();
    }
  }
}

function cutShort(): ApiError {
  return new ApiError(400, "the multipart body ended too early");
}

function parseDisposition(headers: string): { readonly name: string; readonly filename: string | undefined } {
  const line = /^content-disposition:(.*)$/im.exec(headers)?.[1] ?? "";
  const field = (key: string): string | undefined => {
    const match = new RegExp(`;\\s*${key}="((?:[^"\\\\]|\\\\.)*)"`, "i").exec(line);
    const plain = new RegExp(`;\\s*${key}=([^";\\s]+)`, "i").exec(line);
    return decodeName(match?.[1] ?? plain?.[1]);
  };
  return { name: field("name") ?? "", filename: field("filename") };
}

/** Browsers and undici write `%22`, `%0D` and `%0A` for what would end the name; Python writes backslashes. */
function decodeName(text: string | undefined): string | undefined {
  return text
    ?.replace(/%(22|0D|0A)/gi, (_match, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
    .replace(/\\(["\\])/g, "$1");
}
