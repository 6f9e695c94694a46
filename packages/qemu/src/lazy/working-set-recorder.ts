/** Notes which chunks a machine reads first, each once: its working set, kept for the next wake. */
import { join } from "node:path";
import { writeFileAtomically } from "@cocoon/core";
import { maxWorkingSetEntries, writeWorkingSet, type WorkingSetEntry } from "@cocoon/oci";
import { machineFile } from "../store/layout.ts";

export class WorkingSetRecorder {
  readonly #files: readonly { readonly name: string }[];
  readonly #chunkBytes: number;
  readonly #seen = new Set<string>();
  readonly #entries: WorkingSetEntry[] = [];
  #stopped = false;
  #untilAnswer: number | undefined;

  constructor(files: readonly { readonly name: string }[], chunkBytes: number) {
    this.#files = files;
    this.#chunkBytes = chunkBytes;
  }

  add(number: number, { offset, size }: { readonly offset: number; readonly size: number }): void {
    const file = this.#files[number]?.name;
    // Long reads are the kernel's guesses, not the machine's needs.
    if (this.#stopped || file === undefined || size > 2 * this.#chunkBytes) return;
    const end = Math.ceil((offset + size) / this.#chunkBytes);
    for (let position = Math.floor(offset / this.#chunkBytes); position < end; position += 1) {
      const key = `${number} ${position}`;
      if (this.#seen.has(key) || this.#entries.length >= maxWorkingSetEntries) continue;
      this.#seen.add(key);
      this.#entries.push({ file, position });
    }
  }

  /** What it reads from now on it needs right after its first answer. */
  markAnswered(): void {
    this.#untilAnswer ??= this.#entries.length;
  }

  /** Ends the recording. */
  async write(directory: string): Promise<void> {
    this.#stopped = true;
    const part = this.#untilAnswer === undefined ? {} : { untilAnswer: this.#untilAnswer };
    const text = writeWorkingSet({ chunkBytes: this.#chunkBytes, entries: this.#entries, ...part });
    await writeFileAtomically(join(directory, machineFile.workingSet), text, { mode: 0o600, sync: false });
  }
}
