/** Builds the C programs of `native/` with the host's gcc, once per store and version. */
import { createHash } from "node:crypto";
import { chmod, mkdir, readFile, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { pathExists, type Abortable } from "@cocoon/core";
import { newId } from "@cocoon/vm/engine";
import { requireTools, runTool } from "@cocoon/vm/host";
import { syncFile } from "../store/durable.ts";

const sources = join(import.meta.dirname, "..", "..", "native");

const flags = {
  "loopback-guard": ["-shared", "-fPIC"],
  jail: ["-static", "-s"],
} as const;

/** Path of the built file, below `shared`. `notSupported` without gcc. */
export async function ensureNative(
  name: keyof typeof flags,
  shared: string,
  options: Abortable,
): Promise<string> {
  const source = join(sources, `${name}.c`);
  const version = createHash("sha256")
    .update(await readFile(source))
    .digest("hex")
    .slice(0, 16);
  const path = join(shared, `${name}-${version}`);
  if (await pathExists(path)) return path;
  await requireTools(["gcc"], "keeping guests away from this host");
  const work = `${path}.${newId()}`;
  await mkdir(work, { mode: 0o700 });
  try {
    const output = join(work, name);
    const args = ["-std=gnu11", "-O2", "-Wall", "-Werror", ...flags[name], "-o", output, source, "-ldl"];
    await runTool("gcc", args, options);
    await chmod(output, 0o755);
    await syncFile(output);
    await rename(output, path);
  } finally {
    await rm(work, { recursive: true, force: true });
  }
  return path;
}
