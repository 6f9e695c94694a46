/**
 * Finds the programs of the control plane, in this order: a directory named by COCOON_ASSETS or KUBEBUILDER_ASSETS,
 * PATH (same minor version only), our cache, the official release, a build from the pinned Go modules.
 */
import { execFile } from "node:child_process";
import { constants, mkdir, rm } from "node:fs/promises";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";
import { Fault, isAccessible, isFault, lockFile, getErrorMessage, type Abortable } from "@cocoon/core";
import { buildProgram } from "./build.ts";
import { BinaryCache, cachedBinaries } from "./cache.ts";
import { downloadProgram, officialSites, type ReleaseSites } from "./download.ts";
import { programs, type ControlPlaneProgram, type ProgramGroup, type ProgramName } from "./programs.ts";

export type Binaries = Readonly<Record<ProgramName, string>>;

export interface ResolveOptions extends Abortable {
  readonly cacheRoot: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly onProgress: (program: ProgramName, text: string) => void;
  readonly sites?: ReleaseSites;
  /** False: refuse to download or build; `notFound` names what is missing. */
  readonly installAllowed?: boolean;
  /** Programs beside those that every cluster has. */
  readonly groups?: readonly ProgramGroup[];
}

const run = promisify(execFile);

export async function resolveBinaries(options: ResolveOptions): Promise<Binaries> {
  const cache = new BinaryCache(options.cacheRoot);
  const found: Record<ProgramName, string> = { ...cachedBinaries(options.cacheRoot) };
  const missing: ControlPlaneProgram[] = [];
  for (const program of programs) {
    if (program.group && !options.groups?.includes(program.group)) continue;
    const path = await findInstalled(program, options);
    if (path) found[program.name] = path;
    else if (!(await cache.find(program.name))) missing.push(program);
  }
  if (missing.length > 0) await install(missing, cache, options);
  return found;
}

async function findInstalled(
  program: ControlPlaneProgram,
  { env, signal }: ResolveOptions,
): Promise<string | undefined> {
  const assets = env["COCOON_ASSETS"] ?? env["KUBEBUILDER_ASSETS"];
  if (assets) {
    const path = join(assets, program.name);
    if (await isAccessible(path, constants.X_OK)) return path;
    if (env["COCOON_ASSETS"] && !program.group)
      throw new Fault(
        "notFound",
        `COCOON_ASSETS=${assets} has no executable ${program.name}; put it there or unset the variable`,
      );
  }
  for (const directory of (env["PATH"] ?? "").split(delimiter).filter(Boolean)) {
    const path = join(directory, program.name);
    if ((await isAccessible(path, constants.X_OK)) && (await hasSameMinor(path, program, signal)))
      return path;
  }
  return undefined;
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
      options.onProgress(
        first,
        `waiting for process ${holder?.pid ?? ""}, which is preparing the same files`,
      ),
  });
  let online = options.env["COCOON_NO_DOWNLOAD"] ? "COCOON_NO_DOWNLOAD is set" : undefined;
  for (const program of missing) {
    if (await cache.find(program.name)) continue; // made by the process that held the lock before
    online = await installOne(program, cache, { ...options, offlineBecause: online });
  }
}

/** Returns why downloads are pointless, once that is known. */
async function installOne(
  program: ControlPlaneProgram,
  cache: BinaryCache,
  options: ResolveOptions & { readonly offlineBecause: string | undefined },
): Promise<string | undefined> {
  const target = cache.partialPath(program.name);
  const onProgress = (text: string) => options.onProgress(program.name, text);
  let { offlineBecause } = options;
  if (!offlineBecause && !program.isSourceOnly) {
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
      offlineBecause = getErrorMessage(error);
    }
  }
  onProgress(`building from source${offlineBecause ? ` (no download: ${offlineBecause})` : ""}`);
  await buildProgram(program, {
    target,
    onProgress,
    signal: options.signal,
    goCommand: options.env["COCOON_GO"] ?? "go",
  });
  await cache.commit(program.name, "built from source");
  return offlineBecause;
}
