/**
 * One layer of a container image as a tree of its own, with what it takes away: whiteouts (`.wh.NAME` removes what lower
 * layers put there) and opaque directories (`.wh..wh..opq` hides everything below). Hard links are kept aside, since
 * they may point to a file of a lower layer.
 */
import { createWriteStream } from "node:fs";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { Fault, toFault, type Abortable } from "@cocoon/core";
import type { Attributes, TreeNode } from "../file-tree.ts";
import { readTar, type TarEntry, type TarOptions } from "@cocoon/oci";

export interface LayerDirectory {
  readonly kind: "directory";
  /** Absent: the archive only mentions it as a parent. */
  attributes: Attributes | undefined;
  opaque: boolean;
  readonly removed: Set<string>;
  readonly children: Map<string, LayerDirectory | Exclude<TreeNode, { kind: "directory" }>>;
}

interface HardLink {
  readonly path: readonly string[];
  readonly target: readonly string[];
}

export interface Layer {
  readonly root: LayerDirectory;
  readonly links: readonly HardLink[];
}

/** Of the unpacked content of one layer, and of the disk. */
export type ContainerLimits = Pick<TarOptions, "maxEntries" | "maxBytes">;

export interface LayerOptions extends Abortable {
  /** Makes the path of the next spool file. */
  readonly nextSpoolPath: () => string;
  readonly limits: ContainerLimits;
}

const whiteoutPrefix = ".wh.";
const opaqueMarker = ".wh..wh..opq";

export async function readLayer(source: AsyncIterable<Buffer>, options: LayerOptions): Promise<Layer> {
  const root = layerDirectory();
  const links: HardLink[] = [];
  for await (const entry of readTar(source, { what: "archive", ...options.limits })) {
    options.signal.throwIfAborted();
    const path = readPath(entry.path);
    const name = path.at(-1);
    if (name === undefined) {
      if (entry.type === "directory") root.attributes = readAttributes(entry);
      continue;
    }
    const parent = layerParent(root, path.slice(0, -1));
    if (name.startsWith(whiteoutPrefix)) applyWhiteout(parent, name);
    else if (entry.type === "hardLink") links.push({ path, target: readPath(entry.linkTarget) });
    else if (entry.type === "directory") addDirectory(parent, name, entry);
    else parent.children.set(name, await leaf(entry, options));
  }
  return { root, links };
}

/** Names below the root. An archive that names something above it is not a layer but an attack. */
function readPath(path: string): string[] {
  const names = path.split("/").filter((name) => name !== "" && name !== ".");
  if (names.includes("..")) {
    throw new Fault("invalid", `the archive holds a path that leaves its root: ${JSON.stringify(path)}`);
  }
  if (names.some((name) => Buffer.byteLength(name) > 255)) {
    throw new Fault("invalid", "the archive holds a name of more than 255 bytes");
  }
  return names;
}

function layerDirectory(): LayerDirectory {
  return { kind: "directory", attributes: undefined, opaque: false, removed: new Set(), children: new Map() };
}

function layerParent(root: LayerDirectory, path: readonly string[]): LayerDirectory {
  let directory = root;
  for (const name of path) {
    const child = directory.children.get(name);
    if (child?.kind === "directory") {
      directory = child;
      continue;
    }
    if (child?.kind === "symlink") {
      throw new Fault(
        "invalid",
        `the archive puts files below the symbolic link ${path.join("/")} of the same layer`,
      );
    }
    const made = layerDirectory();
    directory.children.set(name, made);
    directory = made;
  }
  return directory;
}

function applyWhiteout(parent: LayerDirectory, name: string): void {
  if (name === opaqueMarker) parent.opaque = true;
  // Other names with two markers are bookkeeping of the program that made the layer.
  else if (!name.startsWith(`${whiteoutPrefix}${whiteoutPrefix}`)) {
    parent.removed.add(name.slice(whiteoutPrefix.length));
  }
}

// oxlint-disable-next-line max-params -- where, what it is called, what it is
function addDirectory(parent: LayerDirectory, name: string, entry: TarEntry): void {
  const known = parent.children.get(name);
  const directory = known?.kind === "directory" ? known : layerDirectory();
  directory.attributes = readAttributes(entry);
  parent.children.set(name, directory);
}

async function leaf(
  entry: TarEntry,
  options: LayerOptions,
): Promise<Exclude<TreeNode, { kind: "directory" }>> {
  const attributes = readAttributes(entry);
  switch (entry.type) {
    case "symlink":
      if (entry.linkTarget === "")
        throw new Fault("invalid", `the symbolic link ${entry.path} has no target`);
      return { kind: "symlink", attributes, target: entry.linkTarget };
    case "character":
    case "block":
    case "fifo":
      return {
        kind: "device",
        attributes,
        device: entry.type,
        major: entry.deviceMajor,
        minor: entry.deviceMinor,
      };
    default:
      return {
        kind: "file",
        attributes,
        sizeBytes: entry.sizeBytes,
        ...(entry.sizeBytes === 0 ? {} : { spoolPath: await spool(entry, options) }),
      };
  }
}

async function spool(entry: TarEntry, { nextSpoolPath, signal }: LayerOptions): Promise<string> {
  const path = nextSpoolPath();
  try {
    await pipeline(entry.content, createWriteStream(path, { flags: "wx", mode: 0o600 }), { signal });
  } catch (error) {
    signal.throwIfAborted();
    throw toFault(error, `cannot unpack ${entry.path}`);
  }
  return path;
}

/** Extended attributes that mean something in a guest: capabilities of programs, and the users' own. */
const keptXattrs = /^SCHILY\.xattr\.(?<name>security\.capability$|user\..*)/;

function readAttributes({ mode, uid, gid, mtimeSeconds, records }: TarEntry): Attributes {
  const xattrs = [...records].flatMap(([key, value]) => {
    const name = keptXattrs.exec(key)?.groups?.["name"];
    return name === undefined ? [] : [[name, Buffer.from(value)] as const];
  });
  return { mode, uid, gid, mtimeSeconds, xattrs: new Map(xattrs) };
}

/** Spool files go below one directory, numbered. */
export function spoolNames(directory: string): () => string {
  let next = 0;
  return () => {
    next += 1;
    return join(directory, `file-${next}`);
  };
}
