/** The demo image's root file system: busybox under all its names, bash, and the few files a login expects. */
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Fault } from "@cocoon/core";
import {
  attributes,
  emptyDirectory,
  ensureDirectory,
  type DirectoryNode,
  type FileNode,
} from "../file-tree.ts";
import { guestSources } from "../guest/guest-program.ts";

export interface DemoTreeOptions {
  readonly busybox: Buffer;
  readonly bash: Buffer;
  /** Where file contents are spooled. */
  readonly work: string;
}

const texts: Readonly<Record<string, string>> = {
  "etc/passwd":
    "root:*:0:0:root:/root:/bin/bash\nuser:*:1000:1000:user:/home/user:/bin/bash\nnobody:*:65534:65534:nobody:/:/bin/false\n",
  "etc/group": "root:x:0:\ntty:x:5:\nuser:x:1000:\nnogroup:x:65534:\n",
  "etc/shells": "/bin/sh\n/bin/ash\n/bin/bash\n",
  "etc/hosts": "127.0.0.1\tlocalhost\n",
  "etc/profile": "export PATH=/usr/local/bin:/bin\n. /etc/bash.bashrc\n",
  // Each command is in the history at once: a machine that is stopped or forked keeps it.
  "etc/bash.bashrc": `PS1='\\u@\\h:\\w\\$ '\nPROMPT_COMMAND='history -a'\nHISTSIZE=5000\nalias ll='ls -l'\n`,
  "etc/issue": "Cocoon demo machine\n",
  "etc/os-release": 'NAME="Cocoon demo"\nID=cocoon-demo\nPRETTY_NAME="Cocoon demo machine"\n',
  // Empty: the machine's own id is written at its first boot.
  "etc/machine-id": "",
};

export async function demoTree({ busybox, bash, work }: DemoTreeOptions): Promise<DirectoryNode> {
  const root = emptyDirectory();
  for (const path of [
    "dev",
    "proc",
    "sys",
    "run",
    "etc",
    "bin",
    "mnt",
    "var/log",
    "var/tmp",
    "usr/local/bin",
  ]) {
    ensureDirectory(root, path.split("/"));
  }
  root.children.set("root", emptyDirectory(0o700));
  const home = { ...emptyDirectory(), attributes: attributes(0o755, { uid: 1000, gid: 1000 }) };
  ensureDirectory(root, ["home"]).children.set("user", home);
  root.children.set("tmp", emptyDirectory(0o1777));
  ensureDirectory(root, ["var"]).children.set("tmp", emptyDirectory(0o1777));
  const link = (target: string) => ({ kind: "symlink", attributes: attributes(0o777), target }) as const;
  root.children.set("sbin", link("bin"));
  const usr = ensureDirectory(root, ["usr"]);
  usr.children.set("bin", link("../bin"));
  usr.children.set("sbin", link("../bin"));
  const bin = ensureDirectory(root, ["bin"]);
  for (const name of appletNames(busybox)) bin.children.set(name, link("busybox-applets"));
  // busybox as a shell would run its own wget whatever is in PATH.
  bin.children.set("sh", link("bash"));
  const [wget, wrapper] = await Promise.all(
    ["demo-wget.sh", "demo-busybox.sh"].map((name) => readFile(join(guestSources, name))),
  );
  const programs = { "busybox-applets": busybox, busybox: wrapper, bash, wget };
  for (const [name, content = Buffer.alloc(0)] of Object.entries(programs))
    bin.children.set(name, await file({ content, mode: 0o755, spoolPath: join(work, name) }));
  for (const [index, [path, text]] of Object.entries(texts).entries()) {
    const names = path.split("/");
    const node = await file({
      content: Buffer.from(text),
      mode: 0o644,
      spoolPath: join(work, `text-${index}`),
    });
    ensureDirectory(root, names.slice(0, -1)).children.set(names.at(-1) ?? "", node);
  }
  return root;
}

async function file(options: {
  readonly content: Buffer;
  readonly mode: number;
  readonly spoolPath: string;
}): Promise<FileNode> {
  await writeFile(options.spoolPath, options.content);
  return {
    kind: "file",
    attributes: attributes(options.mode),
    spoolPath: options.spoolPath,
    sizeBytes: options.content.length,
  };
}

/** busybox carries its names sorted in one run of text, which begins with the test command's two. */
function appletNames(busybox: Buffer): string[] {
  const start = busybox.indexOf("[\0[[\0acpid\0", 0, "latin1");
  if (start < 0) throw new Fault("unavailable", "this busybox does not list its programs");
  const names: string[] = [];
  for (let at = start; ;) {
    const end = busybox.indexOf(0, at);
    const name = busybox.subarray(at, end).toString("latin1");
    if (!/^[a-z0-9_.[-]+$/.test(name) || name < (names.at(-1) ?? "")) return names;
    names.push(name);
    at = end + 1;
  }
}
