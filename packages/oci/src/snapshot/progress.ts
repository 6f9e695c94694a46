/** How far a push or pull is. Called often; the caller limits how often it is shown. */
export interface Progress {
  /** `reading`: the local files; `sending`, `fetching`: over the network; `writing`: the local files. */
  readonly phase: "reading" | "sending" | "fetching" | "writing";
  readonly doneBytes: number;
  /** Best knowledge so far; may change while compressing. */
  readonly totalBytes: number;
}

export type OnProgress = (progress: Progress) => void;

/** Counts one phase. */
export class Meter {
  readonly #phase: Progress["phase"];
  readonly #report: OnProgress | undefined;
  #done = 0;
  #total: number;

  constructor(phase: Progress["phase"], totalBytes: number, report: OnProgress | undefined) {
    this.#phase = phase;
    this.#total = totalBytes;
    this.#report = report;
    if (totalBytes > 0) this.add(0);
  }

  get doneBytes(): number {
    return this.#done;
  }

  add(bytes: number): void {
    this.#done += bytes;
    this.#report?.({
      phase: this.#phase,
      doneBytes: this.#done,
      totalBytes: Math.max(this.#total, this.#done),
    });
  }

  expect(bytes: number): void {
    this.#total += bytes;
  }
}
