/** Lines of sources that say something else in a bundle. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Plugin } from "esbuild";

export interface Replacement {
  /** Below the root of the repository. */
  readonly file: string;
  readonly from: string;
  readonly to: string;
}

/**
 * By path, the files with their lines exchanged. All are read, also those that this bundle does not need: a rule whose file was
 * moved would otherwise do nothing, and nothing would say so.
 */
export async function exchangeLines(
  wanted: readonly Replacement[],
  root: string,
): Promise<ReadonlyMap<string, string>> {
  const changed = new Map<string, string>();
  for (const { file, from, to } of wanted) {
    const path = join(root, file);
    const contents = changed.get(path) ?? (await readSource(path, file));
    if (contents.split(from).length !== 2)
      throw new Error(`${file} must say ${from} once; correct the rule for it in scripts/build/bundle.ts`);
    changed.set(
      path,
      contents.replace(from, () => to),
    );
  }
  return changed;
}

async function readSource(path: string, file: string): Promise<string> {
  try {
    return await readFile(path, "utf8");
  } catch (cause) {
    throw new Error(`${file} cannot be read; correct the rule for it in scripts/build/bundle.ts`, { cause });
  }
}

export function exchange(changed: ReadonlyMap<string, string>): Plugin {
  return {
    name: "exchange lines that depend on where a file is",
    setup: (context) => {
      context.onLoad({ filter: /\.ts$/ }, ({ path }) => {
        const contents = changed.get(path);
        return contents === undefined ? undefined : { contents, loader: "ts" };
      });
    },
  };
}
