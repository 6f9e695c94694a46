/**
 * Which reads of the memory file may be refused. A refused read must be one that the kernel only guessed: an error on a page
 * that the guest waits for kills QEMU. The kernel announces every guess by a read of several pages and asks again, for
 * a part of it, when the guest really waits; so no page is refused twice, and a single page never. Kernels that
 * keep memory in larger pieces ask again for such a piece, which is a part of what was refused.
 */
import { pageBytes, type ReadRequest } from "./fuse-messages.ts";

export class ReadaheadRefusals {
  /** Pages that were refused, of each file. */
  readonly #refused = new Map<number, Set<number>>();
  readonly #tookOver: boolean;

  /** A server that took over does not know what the one before it refused, and refuses nothing. */
  constructor({ tookOver }: { readonly tookOver: boolean }) {
    this.#tookOver = tookOver;
  }

  /** True when the read is refused, which is remembered. */
  refuse(file: number, { offset, size }: ReadRequest): boolean {
    if (this.#tookOver || size <= pageBytes) return false;
    const refused = this.#refused.get(file) ?? new Set();
    this.#refused.set(file, refused);
    const pages = Array.from(
      { length: Math.ceil((offset + size) / pageBytes) - Math.floor(offset / pageBytes) },
      (_each, at) => Math.floor(offset / pageBytes) + at,
    );
    if (pages.some((page) => refused.has(page))) return false;
    for (const page of pages) refused.add(page);
    return true;
  }
}
