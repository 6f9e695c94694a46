/** Builds `cocoon-guest`, the static program that runs inside guests, from the C sources in the repository. */
import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Abortable } from "@cocoon/core";
import type { BlobStore } from "../blob-store.ts";
import { requireTools, runTool } from "@cocoon/vm/host";

export interface GuestProgramOptions extends Abortable {
  readonly store: BlobStore;
}

/** C sources of the guest program, and files of the demo image. */
export const guestSources: string = join(import.meta.dirname, "..", "..", "guest", "src");

const compilerFlags = [
  ["-std=gnu11", "-Os", "-static", "-s", "-Wall", "-Wextra", "-Werror"],
  ["-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections", "-Wl,--build-id=none"],
].flat();

/** Path of the program; built at most once for each version of its sources. */
export async function ensureGuestProgram({ store, signal }: GuestProgramOptions): Promise<string> {
  const sources = await readSources();
  const make = async (work: string) => {
    await requireTools(["gcc"], "building the guest agent");
    const output = join(work, "cocoon-guest");
    const files = sources.filter(({ name }) => name.endsWith(".c")).map(({ name }) => name);
    await runTool("gcc", [...compilerFlags, "-o", output, ...files], { signal, cwd: guestSources });
    const compiler = await runTool("gcc", ["-dumpfullversion"], { signal });
    return { outputs: { program: output }, notes: { compiler: `gcc ${compiler.stdout.trim()}` } };
  };
  const build = await store.ensureBuild(computeKey(sources), make, { signal });
  return store.blobPath(build.outputs["program"] ?? "");
}

/** Key of its build: stands for the sources and how they are compiled. */
export async function guestProgramKey(): Promise<string> {
  return computeKey(await readSources());
}

interface Source {
  readonly name: string;
  readonly content: Buffer;
}

async function readSources(): Promise<Source[]> {
  const names = (await readdir(guestSources)).filter((name) => /\.[ch]$/.test(name)).sort();
  return Promise.all(
    names.map(async (name) => ({ name, content: await readFile(join(guestSources, name)) })),
  );
}

function computeKey(sources: readonly Source[]): string {
  const hash = createHash("sha256").update(JSON.stringify(compilerFlags));
  for (const { name, content } of sources) hash.update(`\0${name}\0${content.length}\0`).update(content);
  return `guest-${hash.digest("hex").slice(0, 32)}`;
}
