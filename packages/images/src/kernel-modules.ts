/** Picks kernel modules with everything they need, in an order in which each can be loaded. */
import { readFile } from "node:fs/promises";
import { globSync } from "node:fs";
import { basename, join } from "node:path";
import { Fault } from "@cocoon/core";

export interface KernelModule {
  readonly fileName: string;
  readonly content: Buffer;
}

/** `directory` is `lib/modules/VERSION`; names are written as in `modprobe`, with "-" and "_" alike. */
export async function collectModules(directory: string, wanted: readonly string[]): Promise<KernelModule[]> {
  const paths = new Map(
    globSync("kernel/**/*.ko", { cwd: directory }).map((path) => [moduleName(path), join(directory, path)]),
  );
  const ordered = new Map<string, KernelModule>();
  const visit = async (name: string, neededBy: readonly string[]): Promise<void> => {
    if (ordered.has(name) || neededBy.includes(name)) return;
    const path = paths.get(name);
    if (!path) throw new Fault("unavailable", `the kernel package has no module ${name}`);
    const content = await readFile(path);
    for (const needed of findDependencies(content)) await visit(needed, [...neededBy, name]);
    ordered.set(name, { fileName: basename(path), content });
  };
  for (const name of wanted) await visit(moduleName(name), []);
  return [...ordered.values()];
}

function moduleName(path: string): string {
  return basename(path, ".ko").replaceAll("-", "_");
}

/** The `.modinfo` section is text: `key=value` with a zero byte after each. */
function findDependencies(module: Buffer): string[] {
  const key = Buffer.from("\0depends=");
  const start = module.indexOf(key);
  if (start < 0) return [];
  const end = module.indexOf(0, start + key.length);
  const value = module.subarray(start + key.length, end).toString("latin1");
  return value.split(",").filter(Boolean).map(moduleName);
}
