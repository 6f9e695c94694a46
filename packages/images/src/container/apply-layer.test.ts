import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test, type TestContext } from "node:test";
import { Fault } from "@cocoon/core";
import { temporaryDirectory } from "@cocoon/testkit";
import { emptyDirectory, type DirectoryNode, type TreeNode } from "../file-tree.ts";
import { inPieces, writeTestTar, type TestEntry } from "@cocoon/oci/testing";
import { applyLayer } from "./apply-layer.ts";
import { readLayer, spoolNames } from "./layer.ts";

/** The tree as lines "path: content", links as "path -> target". */
function draw(node: TreeNode, path = ""): string[] {
  if (node.kind === "symlink") return [`${path} -> ${node.target}`];
  if (node.kind === "file") return [`${path}: ${node.spoolPath ? readFileSync(node.spoolPath, "utf8") : ""}`];
  if (node.kind === "device") return [`${path} (${node.device})`];
  const children = [...node.children].sort(([a], [b]) => (a < b ? -1 : 1));
  const below = children.flatMap(([name, child]) => draw(child, path === "" ? name : `${path}/${name}`));
  return path === "" || below.length > 0 ? below : [`${path}/`];
}

async function apply(t: TestContext, layers: readonly (readonly TestEntry[])[]): Promise<DirectoryNode> {
  const directory = await temporaryDirectory();
  t.after(() => directory[Symbol.asyncDispose]());
  const nextSpoolPath = spoolNames(directory.path);
  let root = emptyDirectory();
  for (const entries of layers) {
    const options = { signal: t.signal, nextSpoolPath, limits: { maxEntries: 1000, maxBytes: 1_000_000 } };
    root = applyLayer(root, await readLayer(inPieces(writeTestTar(entries)), options));
  }
  return root;
}

test("upper layers add, replace and take away", async (t) => {
  const root = await apply(t, [
    [
      { path: "etc/", flag: "5" },
      { path: "etc/a", content: "lower" },
      { path: "etc/b", content: "b" },
      { path: "bin", flag: "5" },
      { path: "bin/tool", content: "tool" },
      { path: "x", content: "a file" },
    ],
    [
      { path: "etc/a", content: "upper" },
      { path: "etc/.wh.b" },
      { path: "./x/inside", content: "now a directory" },
      { path: "bin", flag: "2", link: "usr/bin" },
    ],
  ]);
  assert.deepEqual(draw(root), ["bin -> usr/bin", "etc/a: upper", "x/inside: now a directory"]);
});

test("an opaque directory hides what is below it and keeps what its own layer puts there, in any order", async (t) => {
  const lower: TestEntry[] = [
    { path: "d/", flag: "5" },
    { path: "d/old", content: "old" },
    { path: "d/sub/", flag: "5" },
    { path: "d/sub/old", content: "old" },
  ];
  const marker: TestEntry = { path: "d/.wh..wh..opq" };
  const added: TestEntry[] = [
    { path: "d/new", content: "new" },
    { path: "d/sub/new", content: "new" },
  ];
  for (const upper of [
    [marker, ...added],
    [...added, marker],
  ]) {
    assert.deepEqual(draw(await apply(t, [lower, upper])), ["d/new: new", "d/sub/new: new"]);
  }
});

test("a whiteout of a directory removes all of it, and a later layer may make it again", async (t) => {
  const root = await apply(t, [
    [{ path: "opt/app/lib", content: "1" }],
    [{ path: "opt/.wh.app" }],
    [{ path: "opt/app/new", content: "2" }],
  ]);
  assert.deepEqual(draw(root), ["opt/app/new: 2"]);
});

test("hard links are one file, also to a file of a lower layer", async (t) => {
  const root = await apply(t, [
    [{ path: "a", content: "shared" }],
    [
      { path: "dir/b", flag: "1", link: "a" },
      { path: "c", flag: "1", link: "/dir/b" },
    ],
  ]);
  const a = root.children.get("a");
  const directory = root.children.get("dir");
  assert.ok(directory?.kind === "directory");
  assert.equal(directory.children.get("b"), a);
  assert.equal(root.children.get("c"), a);
});

test("files below a symbolic link of a lower layer land where it leads, inside the root", async (t) => {
  const root = await apply(t, [
    [
      { path: "usr/lib/", flag: "5" },
      { path: "lib", flag: "2", link: "usr/lib" },
      { path: "out", flag: "2", link: "../../../../etc" },
    ],
    [
      { path: "lib/x.so", content: "x" },
      { path: "out/passwd", content: "inside" },
    ],
  ]);
  assert.deepEqual(draw(root), [
    "etc/passwd: inside",
    "lib -> usr/lib",
    "out -> ../../../../etc",
    "usr/lib/x.so: x",
  ]);
});

test("owners, modes and useful extended attributes are kept, others are not", async (t) => {
  const root = await apply(t, [
    [
      {
        path: "ping",
        content: "x",
        uid: 5,
        gid: 6,
        mode: 0o4711,
        pax: {
          "SCHILY.xattr.security.capability": "cap",
          "SCHILY.xattr.user.note": "hi",
          "SCHILY.xattr.security.selinux": "label",
          "SCHILY.xattr.trusted.overlay.opaque": "y",
        },
      },
    ],
  ]);
  const { attributes } = root.children.get("ping") ?? assert.fail();
  assert.deepEqual([attributes.uid, attributes.gid, attributes.mode], [5, 6, 0o4711]);
  assert.deepEqual([...attributes.xattrs.keys()].sort(), ["security.capability", "user.note"]);
});

const attacks: readonly [name: string, layers: readonly (readonly TestEntry[])[], message: RegExp][] = [
  ["a path that leaves the root", [[{ path: "../../etc/cron.d/x", content: "x" }]], /leaves its root/],
  ["a path that leaves it on the way", [[{ path: "a/../../x", content: "x" }]], /leaves its root/],
  ["a hard link to the outside", [[{ path: "x", flag: "1", link: "../etc/shadow" }]], /leaves its root/],
  ["a hard link to nothing", [[{ path: "x", flag: "1", link: "nothing" }]], /which is no file/],
  [
    "files below a link of the same layer",
    [
      [
        { path: "d", flag: "2", link: "/etc" },
        { path: "d/x", content: "x" },
      ],
    ],
    /below the symbolic link/,
  ],
  [
    "a circle of links",
    [
      [
        { path: "a", flag: "2", link: "b" },
        { path: "b", flag: "2", link: "a" },
      ],
      [{ path: "a/x", content: "x" }],
    ],
    /too many links/,
  ],
];
for (const [name, layers, message] of attacks) {
  test(`${name} is refused`, async (t) => {
    await assert.rejects(apply(t, layers), (error) => {
      assert.ok(error instanceof Fault);
      assert.equal(error.code, "invalid");
      assert.match(error.message, message);
      return true;
    });
  });
}
