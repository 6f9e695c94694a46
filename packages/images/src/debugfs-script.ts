/**
 * A tree as commands for debugfs. Names are quoted for its parser and given relative to the current directory, with "./"
 * in front so that none can be taken for an option or for an inode number in angle brackets. Two commands (`write` and
 * `mknod`) take a name as it is, and would take the "./" for a part of it.
 */
import { open, writeFile, type FileHandle } from "node:fs/promises";
import { join } from "node:path";
import { Fault, type Abortable } from "@cocoon/core";
import type { DirectoryNode, FileNode, TreeNode } from "./file-tree.ts";

export interface ScriptOptions extends Abortable {
  /** Where the script and the values of extended attributes are written. */
  readonly workDirectory: string;
}

const bufferedBytes = 256 * 1024;
/** debugfs reads lines of at most this length. */
const longestLine = 8000;

/** Returns the path of the script. */
export async function writeDebugfsScript(root: DirectoryNode, options: ScriptOptions): Promise<string> {
  const path = join(options.workDirectory, "debugfs.script");
  await using file = await open(path, "w", 0o600);
  await new ScriptWriter(file, options).write(root);
  return path;
}

class ScriptWriter {
  readonly #file: FileHandle;
  readonly #options: ScriptOptions;
  readonly #firstName = new Map<FileNode, string>();
  readonly #links = new Map<FileNode, number>();
  #lines: string[] = [];
  #bytes = 0;
  #values = 0;

  constructor(file: FileHandle, options: ScriptOptions) {
    this.#file = file;
    this.#options = options;
  }

  async write(root: DirectoryNode): Promise<void> {
    await this.#add(`cd /`);
    await this.#describe("/", root);
    await this.#add(...times("/lost+found", 0));
    await this.#directory("", root);
    for (const [node, links] of this.#links) {
      await this.#add(`sif ${quoted(this.#firstName.get(node) ?? "")} links_count ${links}`);
    }
    await this.#flush();
  }

  async #directory(path: string, directory: DirectoryNode): Promise<void> {
    this.#options.signal.throwIfAborted();
    const names = [...directory.children.keys()].sort();
    await this.#add(`cd ${quoted(path === "" ? "/" : path)}`);
    for (const name of names) {
      const node = directory.children.get(name);
      if (node && !(path === "" && name === "lost+found")) await this.#entry(path, name, node);
    }
    for (const name of names) {
      const node = directory.children.get(name);
      if (node?.kind === "directory") await this.#directory(`${path}/${name}`, node);
    }
  }

  // oxlint-disable-next-line max-params -- where, what it is called, what it is
  async #entry(path: string, name: string, node: TreeNode): Promise<void> {
    const local = quoted(`./${name}`);
    switch (node.kind) {
      case "directory":
        await this.#add(`mkdir ${local}`);
        break;
      case "symlink":
        await this.#add(`symlink ${local} ${quoted(node.target)}`);
        break;
      case "device":
        await this.#add(`mknod ${quoted(name)} ${deviceWords(node)}`);
        break;
      case "file": {
        const known = this.#firstName.get(node);
        if (known !== undefined) {
          await this.#add(`ln ${quoted(known)} ${local}`);
          this.#links.set(node, (this.#links.get(node) ?? 1) + 1);
          return;
        }
        this.#firstName.set(node, `${path}/${name}`);
        await this.#add(`write ${quoted(node.spoolPath ?? "/dev/null")} ${quoted(name)}`);
        break;
      }
    }
    await this.#describe(`./${name}`, node);
  }

  async #describe(name: string, node: TreeNode): Promise<void> {
    const { mode, uid, gid, mtimeSeconds, xattrs } = node.attributes;
    const file = quoted(name);
    await this.#add(`sif ${file} mode 0${(typeBits(node) | mode).toString(8)}`);
    // debugfs gives new files to the user that runs it.
    if (uid !== 0 || process.getuid?.() !== 0) await this.#add(`sif ${file} uid ${uid}`);
    if (gid !== 0 || process.getuid?.() !== 0) await this.#add(`sif ${file} gid ${gid}`);
    await this.#add(...times(name, mtimeSeconds));
    for (const [key, value] of [...xattrs].sort(([a], [b]) => (a < b ? -1 : 1))) {
      const valuePath = join(this.#options.workDirectory, `xattr-${this.#values}`);
      this.#values += 1;
      await writeFile(valuePath, value);
      await this.#add(`ea_set -f ${quoted(valuePath)} ${file} ${quoted(key)}`);
    }
  }

  async #add(...lines: readonly string[]): Promise<void> {
    for (const line of lines) {
      const bytes = Buffer.byteLength(line);
      if (bytes > longestLine) throw new Fault("invalid", "the image holds a path longer than 4096 bytes");
      this.#lines.push(line);
      this.#bytes += bytes;
    }
    if (this.#bytes > bufferedBytes) await this.#flush();
  }

  async #flush(): Promise<void> {
    await this.#file.appendFile(`${this.#lines.join("\n")}\n`);
    this.#lines = [];
    this.#bytes = 0;
  }
}

function times(name: string, seconds: number): string[] {
  return ["atime", "ctime", "mtime", "crtime"].map((field) => `sif ${quoted(name)} ${field} @${seconds}`);
}

function deviceWords(node: Extract<TreeNode, { kind: "device" }>): string {
  if (node.device === "fifo") return "p";
  return `${node.device === "character" ? "c" : "b"} ${node.major} ${node.minor}`;
}

const bitsByType = {
  directory: 0o040000,
  file: 0o100000,
  symlink: 0o120000,
  character: 0o020000,
  block: 0o060000,
  fifo: 0o010000,
} as const;

function typeBits(node: TreeNode): number {
  return bitsByType[node.kind === "device" ? node.device : node.kind];
}

/** Quotes inside are doubled; a line break cannot be written at all. */
function quoted(text: string): string {
  if (/[\n\r\0]/.test(text)) {
    throw new Fault("invalid", `the image holds a name with a line break: ${JSON.stringify(text)}`);
  }
  return `"${text.replaceAll('"', '""')}"`;
}
