/**
 * Programs that tests and benchmarks compare with or talk to, built once from the Go modules pinned beside this file
 * and kept in the user's cache. The cache key is the content of go.mod and go.sum.
 */
import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, readFile, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { defaultCacheRoot } from "@cocoon/controlplane";
import { runCommand } from "@cocoon/testkit";

export interface GoProgram {
  readonly name: string;
  /** Directory of go.mod. */
  readonly directory: string;
  readonly package: string;
  /** Build tags that leave out what is not used here. */
  readonly tags?: string;
  /** Sources in the directory whose change means a new build, beside go.mod and go.sum. */
  readonly sources?: readonly string[];
}

/** The path of the executable; a cold build takes minutes. */
export async function buildGoProgram(program: GoProgram): Promise<string> {
  const key = createHash("sha256");
  for (const file of ["go.mod", "go.sum", ...(program.sources ?? [])])
    key.update(await readFile(join(program.directory, file)));
  const directory = join(defaultCacheRoot(process.env), "peers");
  const target = join(directory, `${program.name}-${key.digest("hex").slice(0, 16)}`);
  if (existsSync(target)) return target;
  await mkdir(directory, { recursive: true });
  console.log(`# building ${program.name} from its Go modules`);
  const partial = `${target}.${process.pid}`;
  const result = await runCommand(
    "go",
    ["build", "-trimpath", "-ldflags=-s -w", "-tags", program.tags ?? "", "-o", partial, program.package],
    {
      cwd: program.directory,
      env: { CGO_ENABLED: "0", GOFLAGS: "-mod=readonly -buildvcs=false" },
      timeoutMs: 30 * 60_000,
    },
  );
  if (result.code !== 0) {
    await rm(partial, { force: true });
    throw new Error(`go build ${program.package} failed:\n${result.stderr.slice(-2_000)}`);
  }
  await rename(partial, target);
  return target;
}
