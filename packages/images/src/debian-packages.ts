/**
 * Debian packages, fetched and unpacked without privilege. apt verifies each download against its signed lists; the
 * host's lists are used when they know the packages, otherwise (none there, or outdated) lists of our own are fetched.
 */
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { Fault, isFault, type Abortable } from "@cocoon/core";
import { requireTools, runTool, type RunOptions } from "@cocoon/vm/host";

export interface DebianPackage {
  readonly name: string;
  readonly version: string;
  readonly sha256: string;
}

export interface FetchOptions extends Abortable {
  /** Empty directory to work in. */
  readonly directory: string;
  /** Where own package lists are kept between runs. */
  readonly aptDirectory: string;
}

/** Fetches the packages (not what they depend on) in their newest version and unpacks them into one tree. */
export async function fetchDebianPackages(
  names: readonly string[],
  options: FetchOptions,
): Promise<{ readonly packages: readonly DebianPackage[]; readonly root: string }> {
  await requireTools(["apt-get", "apt-cache", "dpkg-deb"], "making a guest image");
  const downloads = join(options.directory, "debs");
  const root = join(options.directory, "root");
  await mkdir(downloads, { recursive: true });
  await mkdir(root, { recursive: true });
  const archives = await withFreshLists(options, (apt) => download(names, { ...apt, cwd: downloads }));
  for (const { file } of archives) {
    await runTool("dpkg-deb", ["-x", join(downloads, file), root], { signal: options.signal });
  }
  return { packages: archives.map(({ file: _file, ...rest }) => rest), root };
}

/** The package that a metapackage stands for: its first dependency of that form. */
export async function resolveMetapackage(
  name: string,
  pattern: RegExp,
  options: Omit<FetchOptions, "directory">,
): Promise<string> {
  return withFreshLists(options, async (apt) => {
    const shown = await runTool("apt-cache", [...apt.args, "show", "--no-all-versions", name], apt);
    const found = pattern.exec(shown.stdout)?.[0];
    if (!found)
      throw new Fault("unavailable", `the Debian package ${name} names no package like ${pattern.source}`);
    return found;
  });
}

interface Apt extends RunOptions {
  readonly args: readonly string[];
}

async function withFreshLists<T>(
  { signal, aptDirectory }: Omit<FetchOptions, "directory">,
  work: (apt: Apt) => Promise<T>,
): Promise<T> {
  try {
    return await work({ args: [], signal });
  } catch (error) {
    if (signal.aborted || isFault(error, "notSupported")) throw error;
  }
  const args = await ownLists(aptDirectory, signal);
  try {
    return await work({ args, signal });
  } catch (error) {
    if (signal.aborted) throw error;
    throw new Fault(
      "unavailable",
      "Debian packages for a guest image cannot be fetched: is the host a Debian with reachable package sources?",
      { cause: error },
    );
  }
}

async function ownLists(aptDirectory: string, signal: AbortSignal): Promise<string[]> {
  await mkdir(join(aptDirectory, "lists", "partial"), { recursive: true });
  await mkdir(join(aptDirectory, "archives", "partial"), { recursive: true });
  const args = [
    "-o",
    `Dir::State::lists=${join(aptDirectory, "lists")}`,
    "-o",
    `Dir::Cache=${aptDirectory}`,
    "-o",
    "Debug::NoLocking=1",
  ];
  await runTool("apt-get", [...args, "update"], { signal });
  return args;
}

const uriLine = /^'[^']+' (?<file>[^\s_]+_[^\s]+\.deb) \d+ SHA256:(?<sha256>[0-9a-f]{64})$/gm;

async function download(
  names: readonly string[],
  apt: Apt,
): Promise<(DebianPackage & { readonly file: string })[]> {
  const listed = await runTool("apt-get", [...apt.args, "download", "--print-uris", ...names], apt);
  await runTool("apt-get", [...apt.args, "download", ...names], apt);
  const archives = [...listed.stdout.matchAll(uriLine)].map(({ groups }) => {
    const file = groups?.["file"] ?? "";
    const [name = "", version = ""] = file.split("_");
    return { name, version: decodeURIComponent(version), sha256: groups?.["sha256"] ?? "", file };
  });
  if (archives.length !== names.length) {
    throw new Fault(
      "internal",
      `apt-get named ${archives.length} of ${names.length} packages: ${listed.stdout}`,
    );
  }
  return archives.sort((a, b) => (a.name < b.name ? -1 : 1));
}
