/**
 * A guest's memory as a file, made from a seed: mostly zero pages, the rest in runs of text, machine code, heap and
 * data without structure, in about the shares and with about the compressibility that were measured on a small
 * Linux guest (69 % zero at 64 KiB, zstd-1 2.6 times).
 */
import { closeSync, ftruncateSync, openSync, readSync, writeSync } from "node:fs";
import { seededRandom } from "@cocoon/testkit";

export const pageBytes = 4096;
type Random = () => number;

export interface MemoryShape {
  readonly bytes: number;
  readonly seed: number;
}

export interface GuestMemory {
  readonly bytes: number;
  /** Page numbers that are not zero. */
  readonly usedPages: readonly number[];
}

const usedPart = 0.3;
const kinds = [
  { share: 0.26, fill: fillText },
  { share: 0.4, fill: fillCode },
  { share: 0.26, fill: fillHeap },
  { share: 0.08, fill: fillNoise },
] as const;

export function writeGuestMemory(path: string, { bytes, seed }: MemoryShape): GuestMemory {
  const random = seededRandom(seed);
  const file = openSync(path, "w", 0o600);
  const usedPages: number[] = [];
  try {
    ftruncateSync(file, bytes);
    const pages = bytes / pageBytes;
    for (let at = 0; at < pages;) {
      const used = runPages(random);
      const fill = pickKind(random);
      for (let page = at; page < Math.min(pages, at + used); page += 1) {
        if (random() < 0.03) continue;
        writePage(file, page, fill(random));
        usedPages.push(page);
      }
      at += used + Math.round(runPages(random) * (1 / usedPart - 1));
    }
  } finally {
    closeSync(file);
  }
  return { bytes, usedPages };
}

/** Replaces whole runs of memory, wherever they fall; returns the bytes. */
export function rewriteRuns(
  path: string,
  { bytes, seed }: MemoryShape,
  run: { readonly count: number; readonly pages: number },
): Buffer[] {
  const random = seededRandom(seed);
  const written: Buffer[] = [];
  withFile(path, (file) => {
    for (let index = 0; index < run.count; index += 1) {
      const stride = Math.floor(bytes / pageBytes / run.count);
      const first = index * stride + Math.floor(random() * (stride - run.pages));
      const fill = pickKind(random);
      for (let page = first; page < first + run.pages; page += 1)
        written.push(Buffer.from(writePage(file, page, fill(random))));
    }
  });
  return written;
}

/** Replaces pages here and there; `part` of them only by a few words, as counters and timestamps do. */
export function rewritePages(
  path: string,
  pages: readonly number[],
  { seed, touchedPart }: { readonly seed: number; readonly touchedPart: number },
): void {
  const random = seededRandom(seed);
  withFile(path, (file) => {
    for (const page of pages) {
      if (random() >= touchedPart) {
        writePage(file, page, pickKind(random)(random));
        continue;
      }
      const content = Buffer.alloc(pageBytes);
      readSync(file, content, 0, pageBytes, page * pageBytes);
      for (let word = 0; word < 12; word += 1)
        content.writeUInt32LE(Math.floor(random() * 2 ** 32), Math.floor(random() * 1023) * 4);
      writePage(file, page, content);
    }
  });
}

/** A share of the given pages, without order. */
export function somePages(pages: readonly number[], part: number, seed: number): number[] {
  const random = seededRandom(seed);
  return pages.filter(() => random() < part);
}

function withFile(path: string, use: (file: number) => void): void {
  const file = openSync(path, "r+");
  try {
    use(file);
  } finally {
    closeSync(file);
  }
}

function writePage(file: number, page: number, content: Buffer): Buffer {
  writeSync(file, content, 0, pageBytes, page * pageBytes);
  return content;
}

/** Between 64 KiB and 4 MiB, small ones more often. */
function runPages(random: Random): number {
  return Math.round(16 * 64 ** random());
}

function pickKind(random: Random): (random: Random) => Buffer {
  let rest = random();
  for (const kind of kinds) {
    rest -= kind.share;
    if (rest < 0) return kind.fill;
  }
  return fillNoise;
}

const page = Buffer.alloc(pageBytes);

const words = makeWords();

function makeWords(): readonly string[] {
  const random = seededRandom(1);
  const letter = (): string => "etaoinshrdlucmfwypvbgkjqxz".charAt(Math.floor(random() ** 1.7 * 26));
  const word = (): string => Array.from({ length: 2 + Math.floor(random() * 8) }, letter).join("");
  return Array.from({ length: 4000 }, word);
}

function fillText(random: Random): Buffer {
  let at = 0;
  while (at < pageBytes) {
    const word = words[Math.floor(random() ** 3 * words.length)] ?? "";
    at += page.write(random() < 0.1 ? `${word}\n` : `${word} `, at, "latin1");
  }
  return page;
}

const snippets = makeSnippets();

function makeSnippets(): readonly Buffer[] {
  const random = seededRandom(2);
  return Array.from({ length: 6000 }, () =>
    Buffer.from(Array.from({ length: 3 + Math.floor(random() * 12) }, () => Math.floor(random() ** 2 * 256))),
  );
}

function fillCode(random: Random): Buffer {
  let at = 0;
  while (at < pageBytes) {
    const snippet = snippets[Math.floor(random() ** 4 * snippets.length)];
    at += snippet?.copy(page, at) ?? pageBytes;
    if (random() < 0.12 && at < pageBytes - 4) at = page.writeInt32LE(Math.floor(random() * 2 ** 16), at);
  }
  return page;
}

function fillHeap(random: Random): Buffer {
  for (let at = 0; at < pageBytes; at += 8) {
    const kind = random();
    const pointer = kind < 0.2;
    const low = pointer
      ? Math.floor(random() * 2 ** 22) * 16
      : kind < 0.6
        ? Math.floor(random() ** 3 * 4096)
        : 0;
    page.writeUInt32LE(low, at);
    page.writeUInt32LE(pointer ? 0x7f3a : 0, at + 4);
  }
  return page;
}

function fillNoise(random: Random): Buffer {
  for (let at = 0; at < pageBytes; at += 4) page.writeUInt32LE(Math.floor(random() * 2 ** 32), at);
  return page;
}
