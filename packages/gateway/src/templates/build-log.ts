/** The log of one build: bounded, and written to its record now and then. */
import type { BuildLogEntry, BuildRecord, BuildRecords } from "./build-records.ts";

const everyMs = 1_000;
/** A ConfigMap holds one MiB. */
const mostBytes = 512 * 1024;
const mostLine = 4_096;

export class BuildLog implements AsyncDisposable {
  readonly #records: BuildRecords;
  readonly #entries: BuildLogEntry[] = [];
  readonly #timer: NodeJS.Timeout;
  #record: BuildRecord;
  #bytes = 0;
  #writing: Promise<void> = Promise.resolve();

  constructor(records: BuildRecords, record: BuildRecord) {
    this.#records = records;
    this.#record = { ...record, status: "building" };
    this.#timer = setInterval(() => this.#flush(), everyMs);
  }

  add(message: string, { level = "info", step }: Partial<Pick<BuildLogEntry, "level" | "step">> = {}): void {
    for (const line of message.split("\n").filter((text) => text !== "")) {
      const text = line.slice(0, mostLine);
      if (this.#bytes > mostBytes) return;
      this.#bytes += text.length + 100;
      const cut = this.#bytes > mostBytes;
      this.#entries.push({
        timestamp: new Date().toISOString(),
        level: cut ? "warn" : level,
        message: cut ? "the log is longer than is kept" : text,
        ...(step ? { step } : {}),
      });
    }
  }

  /** The last words of the build. */
  async end(outcome: Pick<BuildRecord, "status" | "reason">): Promise<void> {
    this.#record = { ...this.#record, ...outcome };
    this.#flush();
    await this.#writing;
  }

  #flush(): void {
    const record = { ...this.#record, logs: [...this.#entries] };
    const signal = AbortSignal.timeout(10_000);
    // The next write has all that this one had.
    this.#writing = this.#writing.then(() => this.#records.write(record, { signal })).catch(() => undefined);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#timer);
    await this.#writing;
  }
}
