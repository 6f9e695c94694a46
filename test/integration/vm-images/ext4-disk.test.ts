/** Root disks that the real tools read back: every kind of file, strange names, owners, sizes. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFile, readdir, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { Fault } from "@cocoon/core";
import { runCommand, temporaryDirectory } from "@cocoon/testkit";
import { writeExt4Disk } from "../../../packages/images/src/ext4-disk.ts";
import {
  attributes,
  emptyDirectory,
  ensureDirectory,
  type DirectoryNode,
  type TreeNode,
} from "../../../packages/images/src/file-tree.ts";

const uuid = "c0c00000-0000-4000-8000-0000000000ff";

async function debugfs(disk: string, command: string): Promise<string> {
  const { stdout, stderr } = await runCommand("/usr/sbin/debugfs", ["-R", command, disk]);
  return stdout + stderr.replace(/^debugfs \d.*\n/, "");
}

async function makeTree(spool: string): Promise<DirectoryNode> {
  const root = emptyDirectory();
  const file = async (content: Buffer, changed: Parameters<typeof attributes>[1] = {}, mode = 0o644) => {
    const spoolPath = join(spool, `spool-${createHash("sha1").update(content).digest("hex").slice(0, 8)}`);
    await writeFile(spoolPath, content);
    return {
      kind: "file",
      attributes: attributes(mode, changed),
      spoolPath,
      sizeBytes: content.length,
    } as const;
  };
  const put = (path: string, node: TreeNode) => {
    const names = path.split("/");
    ensureDirectory(root, names.slice(0, -1)).children.set(names.at(-1) ?? "", node);
  };
  put("etc/passwd", await file(Buffer.from("root:x:0:0\n")));
  put("bin/su", await file(Buffer.from("#!"), { uid: 0, gid: 7, mtimeSeconds: 1_600_000_000 }, 0o4755));
  put("home/user/owned", await file(Buffer.from("mine"), { uid: 1000, gid: 100_000 }, 0o600));
  const shared = await file(Buffer.alloc(300_000, "shared"));
  put("one", shared);
  put("two/names", shared);
  put("empty", { kind: "file", attributes: attributes(0o644), sizeBytes: 0 });
  put("link", { kind: "symlink", attributes: attributes(0o777), target: "a target with blanks" });
  put("long-link", { kind: "symlink", attributes: attributes(0o777), target: `/${"x".repeat(200)}` });
  put("dev/null", { kind: "device", attributes: attributes(0o666), device: "character", major: 1, minor: 3 });
  put("dev/pipe", { kind: "device", attributes: attributes(0o600), device: "fifo", major: 0, minor: 0 });
  put('strange/with "quotes" and blanks', await file(Buffer.from("q")));
  put("strange/-f", await file(Buffer.from("option")));
  put("strange/<12>", await file(Buffer.from("inode")));
  put("strange/ünïcödé", await file(Buffer.from("u")));
  put("strange/#comment", await file(Buffer.from("c")));
  const capability = Buffer.from("0100000200200000000000000000000000000000", "hex");
  put(
    "bin/ping",
    await file(Buffer.from("p"), { xattrs: new Map([["security.capability", capability]]) }, 0o755),
  );
  return root;
}

test("everything in the tree is on the disk, as the tree says", async (t) => {
  await using directory = await temporaryDirectory();
  const path = join(directory.path, "disk");
  const options = { path, workDirectory: directory.path, uuid, maxBytes: 2 ** 30, signal: t.signal };
  const sizeBytes = await writeExt4Disk(await makeTree(directory.path), options);
  assert.equal((await stat(path)).size, sizeBytes);
  assert.ok((await stat(path)).blocks * 512 < 3_000_000, "what is empty takes no space");
  const check = await runCommand("/usr/sbin/e2fsck", ["-fn", path]);
  assert.equal(check.code, 0, check.stdout);

  const su = await debugfs(path, "stat /bin/su");
  assert.match(su, /Mode:\s+04755/);
  assert.match(su, /Group:\s+7 /);
  assert.match(su, /mtime: 0x5f5e1000/);
  const owned = await debugfs(path, "stat /home/user/owned");
  assert.match(owned, /User:\s+1000\s+Group:\s+100000 /);
  assert.match(owned, /Mode:\s+0600/);
  assert.match(await debugfs(path, "stat /one"), /Links: 2/);
  assert.equal(
    /Inode: (\d+)/.exec(await debugfs(path, "stat /one"))?.[1],
    /Inode: (\d+)/.exec(await debugfs(path, "stat /two/names"))?.[1],
  );
  assert.match(await debugfs(path, "stat /link"), /Fast link dest: "a target with blanks"/);
  assert.match(await debugfs(path, "stat /dev/null"), /Type: character special[^]*01:03/);
  assert.match(await debugfs(path, "stat /dev/pipe"), /Type: FIFO/);
  assert.match(await debugfs(path, "ea_list /bin/ping"), /security\.capability \(20\)/);
  assert.equal(await debugfs(path, 'cat "/strange/with ""quotes"" and blanks"'), "q");
  for (const [name, content] of [
    ["-f", "option"],
    ["<12>", "inode"],
    ["ünïcödé", "u"],
    ["#comment", "c"],
  ] as const) {
    assert.equal(await debugfs(path, `cat "/strange/${name}"`), content, name);
  }
  await runCommand("/usr/sbin/debugfs", ["-R", `dump /one ${join(directory.path, "out")}`, path]);
  assert.deepEqual(await readFile(join(directory.path, "out")), Buffer.alloc(300_000, "shared"));
});

test("the same tree gives the same bytes", async (t) => {
  await using directory = await temporaryDirectory();
  const make = async (name: string) => {
    const options = { path: join(directory.path, name), workDirectory: directory.path, uuid };
    await writeExt4Disk(await makeTree(directory.path), { ...options, maxBytes: 2 ** 30, signal: t.signal });
    return createHash("sha256")
      .update(await readFile(options.path))
      .digest("hex");
  };
  assert.equal(await make("first"), await make("second"));
});

test("a tree that is too large is refused, and nothing is left behind", async (t) => {
  await using directory = await temporaryDirectory();
  const root = emptyDirectory();
  root.children.set("huge", {
    kind: "file",
    attributes: attributes(0o644),
    sizeBytes: 2 ** 40,
    spoolPath: "/dev/null",
  });
  const path = join(directory.path, "disk");
  await assert.rejects(
    writeExt4Disk(root, { path, workDirectory: directory.path, uuid, maxBytes: 2 ** 30, signal: t.signal }),
    (error) => error instanceof Fault && error.code === "invalid" && /1024 MiB allowed/.test(error.message),
  );
  assert.deepEqual(await readdir(directory.path), []);
});

test("a name that cannot be written is refused, and no disk is left behind", async (t) => {
  await using directory = await temporaryDirectory();
  const root = emptyDirectory();
  root.children.set("two\nlines", { kind: "file", attributes: attributes(0o644), sizeBytes: 0 });
  const path = join(directory.path, "disk");
  await assert.rejects(
    writeExt4Disk(root, { path, workDirectory: directory.path, uuid, maxBytes: 2 ** 30, signal: t.signal }),
    /a name with a line break/,
  );
  assert.ok(!(await readdir(directory.path)).includes("disk"));
});
