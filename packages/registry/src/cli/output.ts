/** How commands speak: results on standard output, everything else on standard error. */
import type { Readable, Writable } from "node:stream";
import { ProgressBar } from "./progress-bar.ts";

export interface Streams {
  readonly stdin: Readable;
  readonly stdout: Writable;
  readonly stderr: Writable & { readonly isTTY?: boolean; readonly columns?: number };
}

export interface OutputOptions {
  readonly json: boolean;
  readonly quiet: boolean;
}

export class Output {
  readonly #options: OutputOptions;
  readonly #streams: Streams;

  constructor(options: OutputOptions, streams: Streams) {
    this.#options = options;
    this.#streams = streams;
  }

  get isJson(): boolean {
    return this.#options.json;
  }

  /** The result: lines for people, or the value as JSON. */
  result(lines: string | readonly string[], value: unknown): void {
    const text = this.#options.json ? JSON.stringify(value, null, 2) : [lines].flat().join("\n");
    if (text !== "") this.#streams.stdout.write(`${text}\n`);
  }

  /** For people who watch; not part of the result. */
  note(line: string): void {
    if (!this.#options.quiet) this.#streams.stderr.write(`${line}\n`);
  }

  progress(): ProgressBar {
    const { stderr } = this.#streams;
    return new ProgressBar(!this.#options.quiet && stderr.isTTY ? stderr : undefined);
  }
}
