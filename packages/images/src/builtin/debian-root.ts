/** A Debian root file system by mmdebstrap, as a tree whose file contents are spooled. */
import { createReadStream } from "node:fs";
import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { tryReadFile, type Abortable } from "@cocoon/core";
import { runTool } from "@cocoon/vm/host";
import { applyLayer } from "../container/apply-layer.ts";
import { defaultContainerLimits } from "../container/container-disk.ts";
import { readLayer, spoolNames } from "../container/layer.ts";
import { emptyDirectory, type DirectoryNode } from "../file-tree.ts";

export interface DebianRoot extends Abortable {
  /** Directory for the archive and the spooled contents. */
  readonly work: string;
  readonly packages: readonly string[];
  /** Shell commands; `$1` is the root. */
  readonly essentialHook?: string;
  readonly customizeHook: string;
  readonly env?: Readonly<Record<string, string>>;
}

export async function bootstrapDebian(request: DebianRoot): Promise<DirectoryNode> {
  const { work, packages, essentialHook, customizeHook, env = {}, signal } = request;
  const archive = join(work, "root.tar");
  const args = [
    ["--variant=minbase", "--format=tar", `--include=${packages.join(",")}`],
    ['--aptopt=Acquire::Languages "none"', "--dpkgopt=path-exclude=/usr/share/man/*"],
    ["--dpkgopt=path-exclude=/usr/share/locale/*", "--dpkgopt=path-exclude=/usr/share/doc/*"],
    essentialHook ? [`--essential-hook=${essentialHook}`] : [],
    [`--customize-hook=${customizeHook}`, await findSuite(), archive],
  ].flat();
  await runTool("mmdebstrap", args, { signal, env, timeoutMs: 1_800_000 });
  const root = await readRoot(archive, { work, signal });
  await rm(archive);
  return root;
}

/** The host's own release, so that its keys fit. */
async function findSuite(): Promise<string> {
  const text = (await tryReadFile("/etc/os-release")) ?? "";
  const isDebian = /^ID=debian$/m.test(text);
  return (
    (isDebian ? /^VERSION_CODENAME=(?<name>[a-z]+)$/m.exec(text)?.groups?.["name"] : undefined) ?? "stable"
  );
}

async function readRoot(
  archive: string,
  { work, signal }: Abortable & { readonly work: string },
): Promise<DirectoryNode> {
  const spool = join(work, "spool");
  await mkdir(spool);
  const layer = await readLayer(createReadStream(archive, { highWaterMark: 1024 * 1024 }), {
    signal,
    nextSpoolPath: spoolNames(spool),
    limits: defaultContainerLimits,
  });
  return applyLayer(emptyDirectory(), layer);
}
