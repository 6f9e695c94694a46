/** One line on a terminal that shows how far a transfer is: each phase with its share, and the speed of the last one. */
import type { Progress } from "@cocoon/oci";
import { formatSize } from "./format-size.ts";

export interface Terminal {
  write(text: string): unknown;
  readonly columns?: number;
}

const drawEveryMs = 100;
const barWidth = 24;

export class ProgressBar implements Disposable {
  readonly #terminal: Terminal | undefined;
  readonly #now: () => number;
  readonly #started = new Map<Progress["phase"], number>();
  #drawnAt = Number.NEGATIVE_INFINITY;
  #drawn = false;

  constructor(terminal: Terminal | undefined, now: () => number = () => performance.now()) {
    this.#terminal = terminal;
    this.#now = now;
  }

  readonly update = (progress: Progress): void => {
    if (!this.#terminal) return;
    const now = this.#now();
    if (!this.#started.has(progress.phase)) this.#started.set(progress.phase, now);
    if (now - this.#drawnAt < drawEveryMs) return;
    this.#drawnAt = now;
    this.#draw(this.#terminal, progress);
  };

  [Symbol.dispose](): void {
    if (this.#drawn) this.#terminal?.write("\r\u001B[K");
    this.#drawn = false;
  }

  #draw(terminal: Terminal, progress: Progress): void {
    const text = progressText(progress, this.#now() - (this.#started.get(progress.phase) ?? 0));
    terminal.write(`\r\u001B[K${text.slice(0, Math.max(20, (terminal.columns ?? 80) - 1))}`);
    this.#drawn = true;
  }
}

export function progressText({ phase, doneBytes, totalBytes }: Progress, elapsedMs: number): string {
  const share = totalBytes > 0 ? Math.min(1, doneBytes / totalBytes) : 0;
  const filled = Math.round(share * barWidth);
  const bar = `${"█".repeat(filled)}${"░".repeat(barWidth - filled)}`;
  const speed = elapsedMs > 500 ? `  ${formatSize(doneBytes / (elapsedMs / 1000))}/s` : "";
  const percent = `${Math.floor(share * 100)}%`.padStart(4);
  return `${phase.padEnd(8)} ${bar} ${percent}  ${formatSize(doneBytes)} of ${formatSize(totalBytes)}${speed}`;
}
