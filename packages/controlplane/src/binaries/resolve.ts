/**
 * Finds the programs of the control plane, in this order: a directory named by COCOON_ASSETS or KUBEBUILDER_ASSETS,
 * PATH (same minor version only), our cache, the official release, a build from the pinned Go modules.
 */
import { execFile } from "node:child_process";
import { access, constants, mkdir, rm } from "node:fs/promises";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";
import { Fault, isFault, lockFile, messageOf, type Abortable } from "@cocoon/core";
import { buildProgram } from "./build.ts";
import { BinaryCache } from "./cache.ts";
import { downloadProgram, officialSites, type ReleaseSites } from "./download.ts";
import { programs, type ControlPlaneProgram, type ProgramName } from "./programs.ts";

export type Binaries = Readonly<Record<ProgramName, string>>;

export interface ResolveOptions extends Abortable {
  readonly cacheRoot: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly onProgress: (program: ProgramName, text: string) => void;
  readonly sites?: ReleaseSites;
  /** Refuse to download or build: `notFound` says what is missing. */
  readonly installAllowed?: boolean;
}

const run = promisify(execFile);

export async function resolveBinaries(options: ResolveOptions): Promise<Binaries> {
  const cache = new BinaryCache(options.cacheRoot);
  const found: Partial<Record<ProgramName, string>> = {};
  for (const program of programs) {
    const path = (await findInstalled(program, options)) ?? (await findCached(program, cache));
    if (path) found[program.name] = path;
  }
  const missing = programs.filter((program) => !found[program.name]);
  if (missing.length > 0) await install(missing, cache, options);
  for (const program of missing) found[program.name] = cache.path(program.name);
  return found as Binaries;
}

async function findCached(program: ControlPlaneProgram, cache: BinaryCache): Promise<string | undefined> {
  return (await cache.find(program.name)) ? cache.path(program.name) : undefined;
}

async function findInstalled(
  program: ControlPlaneProgram,
  { env, signal }: ResolveOptions,
): Promise<string | undefined> {
  const assets = env["COCOON_ASSETS"] ?? env["KUBEBUILDER_ASSETS"];
  if (assets) {
    const path = join(assets, program.name);
    if (await isExecutable(path)) return path;
    if (env["COCOON_ASSETS"])
      throw new Fault(
        "notFound",
        `COCOON_ASSETS=${assets} has no executable ${program.name}; put it there or unset the variable`,
      );
  }
  for (const directory of (env["PATH"] ?? "").split(delimiter).filter(Boolean)) {
    const path = join(directory, program.name);
    if ((await isExecutable(path)) && (await hasSameMinor(path, program, signal))) return path;
  }
  return undefined;
}

async function isExecutable(path: string): Promise<boolean> {
  return access(path, constants.X_OK).then(
    () => true,
    () => false,
  );
}

async function hasSameMinor(
  path: string,
  program: ControlPlaneProgram,
  signal: AbortSignal,
): Promise<boolean> {
  try {
    const { stdout } = await run(path, [...program.versionArguments], { signal, timeout: 10_000 });
    const [major, minor] = program.version.split(".");
    return new RegExp(`\\bv?${major}\\.${minor}\\.\\d+`).test(stdout);
  } catch {
    return false; // a program that cannot say its version is not one to run a cluster with
  }
}

async function install(
  missing: readonly ControlPlaneProgram[],
  cache: BinaryCache,
  options: ResolveOptions,
): Promise<void> {
  if (options.installAllowed === false) {
    const names = missing.map((program) => `${program.name} ${program.version}`).join(", ");
    throw new Fault(
      "notFound",
      `missing: ${names}. Put them into a directory and name it in COCOON_ASSETS, or run again without --no-install to download or build them`,
    );
  }
  await mkdir(cache.directory, { recursive: true });
  const first = missing[0]?.name ?? "etcd";
  await using _lock = await lockFile(cache.lockPath, {
    signal: options.signal,
    onWait: (holder) =>
      options.onProgress(first, `waiting for process ${holder.pid}, which is preparing the same files`),
  });
  let online = options.env["COCOON_NO_DOWNLOAD"] ? "COCOON_NO_DOWNLOAD is set" : undefined;
  for (const program of missing) {
    if (await cache.find(program.name)) continue; // made by whoever held the lock before us
    online = await installOne(program, cache, { ...options, offlineBecause: online });
  }
}

interface InstallOptions extends ResolveOptions {
  readonly offlineBecause: string | undefined;
}

/** Returns why downloads are pointless, once that is known. */
async function installOne(
  program: ControlPlaneProgram,
  cache: BinaryCache,
  options: InstallOptions,
): Promise<string | undefined> {
  const target = cache.partialPath(program.name);
  const onProgress = (text: string) => options.onProgress(program.name, text);
  let offlineBecause = options.offlineBecause;
  if (!offlineBecause) {
    try {
      await downloadProgram(program, {
        target,
        onProgress,
        signal: options.signal,
        sites: options.sites ?? officialSites,
      });
      await cache.commit(program.name, "official release");
      return undefined;
    } catch (error) {
      await rm(target, { force: true });
      if (options.signal.aborted || !isFault(error, "unavailable")) throw error;
      offlineBecause = messageOf(error);
    }
  }
  onProgress(`building from source (no download: ${offlineBecause})`);
  await buildProgram(program, {
    target,
    onProgress,
    signal: options.signal,
    goCommand: options.env["COCOON_GO"] ?? "go",
  });
  await cache.commit(program.name, "built from source");
  return offlineBecause;
}
