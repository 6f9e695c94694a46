/**
 * A root file system in memory: names and attributes here, file contents in spool files with names of our own. An
 * archive's names thus never touch the host's file system; they are written straight into the new disk.
 */
export interface Attributes {
  /** Permission bits, set-id and sticky bits included. */
  readonly mode: number;
  readonly uid: number;
  readonly gid: number;
  readonly mtimeSeconds: number;
  readonly xattrs: ReadonlyMap<string, Buffer>;
}

export interface DirectoryNode {
  readonly kind: "directory";
  readonly attributes: Attributes;
  readonly children: Map<string, TreeNode>;
}

/** The same object under two names is one file with two links. */
export interface FileNode {
  readonly kind: "file";
  readonly attributes: Attributes;
  /** Spool file on the host; absent when the file is empty. */
  readonly spoolPath?: string;
  readonly sizeBytes: number;
}

interface SymlinkNode {
  readonly kind: "symlink";
  readonly attributes: Attributes;
  readonly target: string;
}

interface DeviceNode {
  readonly kind: "device";
  readonly attributes: Attributes;
  readonly device: "character" | "block" | "fifo";
  readonly major: number;
  readonly minor: number;
}

export type TreeNode = DirectoryNode | FileNode | SymlinkNode | DeviceNode;

export function attributes(mode: number, changed: Partial<Attributes> = {}): Attributes {
  return { mode, uid: 0, gid: 0, mtimeSeconds: 0, xattrs: new Map(), ...changed };
}

export function emptyDirectory(mode = 0o755): DirectoryNode {
  return { kind: "directory", attributes: attributes(mode), children: new Map() };
}

/** The directory at that path, made with its parents where it is missing; a non-directory in the way is replaced. */
export function ensureDirectory(root: DirectoryNode, path: readonly string[]): DirectoryNode {
  let directory = root;
  for (const name of path) {
    const child = directory.children.get(name);
    if (child?.kind === "directory") {
      directory = child;
      continue;
    }
    const made = emptyDirectory();
    directory.children.set(name, made);
    directory = made;
  }
  return directory;
}

export interface TreeTotals {
  readonly entries: number;
  /** What the content takes on a file system with blocks of that size. */
  readonly contentBytes: number;
}

/** Counts each file once, however many names it has. */
export function computeTotals(root: DirectoryNode, blockBytes: number): TreeTotals {
  const seen = new Set<TreeNode>();
  let contentBytes = 0;
  const count = (node: TreeNode): void => {
    if (seen.has(node)) return;
    seen.add(node);
    contentBytes += countBlocks(node) * blockBytes;
    if (node.kind === "directory") for (const child of node.children.values()) count(child);
  };
  const countBlocks = (node: TreeNode): number => {
    const xattrBlocks = node.attributes.xattrs.size > 0 ? 1 : 0;
    if (node.kind === "file") return xattrBlocks + Math.ceil(node.sizeBytes / blockBytes);
    if (node.kind === "symlink") return xattrBlocks + (node.target.length > 59 ? 1 : 0);
    if (node.kind === "device") return xattrBlocks;
    // A directory entry takes at most 8 + 255 bytes, its name in UTF-8; half-full blocks are the worst case.
    let nameBytes = 0;
    for (const name of node.children.keys()) nameBytes += 12 + Buffer.byteLength(name);
    return xattrBlocks + 1 + Math.ceil((2 * nameBytes) / blockBytes);
  };
  count(root);
  return { entries: seen.size, contentBytes };
}
