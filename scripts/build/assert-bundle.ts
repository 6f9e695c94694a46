/** What must be true of a bundle, whatever was changed in the sources or in a library. */
import { readFile } from "node:fs/promises";
import type { Metafile } from "esbuild";

/** Parts of libraries that cost every program megabytes of memory, and how much of each a bundle may have. */
const bounds: readonly { readonly path: string; readonly maxBytes: number }[] = [
  { path: "node_modules/@kubernetes/client-node/dist/gen/", maxBytes: 1_000_000 },
  { path: "node_modules/undici/index.js", maxBytes: 0 },
  { path: "node_modules/undici/lib/web/websocket/", maxBytes: 20_000 },
];

/** Fails when a rule that leaves something out of the bundles no longer does. */
export function assertSlim({ outputs }: Metafile): void {
  for (const [output, { inputs }] of Object.entries(outputs))
    for (const { path, maxBytes } of bounds) {
      const bytes = Object.entries(inputs)
        .filter(([input]) => input.includes(path))
        .reduce((sum, [, { bytesInOutput }]) => sum + bytesInOutput, 0);
      if (bytes > maxBytes)
        throw new Error(
          `${output} has ${bytes} bytes of ${path}, more than ${maxBytes}; see scripts/build/bundle.ts`,
        );
    }
}

export async function assertText(path: string): Promise<void> {
  const text = await readFile(path, "utf8");
  assertAscii(path, text);
  // The plugin plainHttp says what this would cost.
  if (/\bfrom\s*["'](node:)?http["']/.test(text)) throw new Error(`${path} imports node:http by name`);
}

/** A single letter beyond makes V8 keep the whole text in two bytes a letter, for as long as the program runs. */
function assertAscii(path: string, text: string): void {
  const found = /[^\0-\x7f]/.exec(text);
  if (found === null) return;
  const context = found.input.slice(Math.max(0, found.index - 40), found.index + 40);
  throw new Error(`${path} contains ${found[0]}; write it as an escape, in the source of …${context}…`);
}
