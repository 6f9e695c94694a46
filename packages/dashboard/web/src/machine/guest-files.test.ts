import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { joinPath, parentPath, parseListing } from "./guest-files.ts";

test("a listing is read, directories first", () => {
  const { files, unreadable } = parseListing(
    "81a4 12 1700000000 ./b.txt\n41ed 4096 1700000000 ./dir\na1ff 3 1700000000 ./link\n",
  );
  assert.deepEqual(
    files.map(({ name, kind, sizeBytes }) => [name, kind, sizeBytes]),
    [
      ["dir", "directory", 4096],
      ["b.txt", "file", 12],
      ["link", "other", 3],
    ],
  );
  assert.equal(unreadable, 0);
});

test("a name is text, whatever it contains; one with a line break is counted and not shown", () => {
  fc.assert(
    fc.property(fc.string({ minLength: 1 }), (name) => {
      const { files, unreadable } = parseListing(`81a4 1 0 ./${name}\n`);
      if (/[\n]/.test(name)) assert.ok(files.every((file) => !file.name.includes("\n")));
      else if (/[\r\u2028\u2029]/.test(name)) assert.equal(unreadable + files.length, 1);
      else assert.deepEqual([files[0]?.name, unreadable], [name, 0]);
    }),
  );
});

test("paths are joined and left", () => {
  assert.equal(joinPath("/", "a"), "/a");
  assert.equal(joinPath("/a", "b"), "/a/b");
  assert.equal(parentPath("/a/b/"), "/a");
  assert.equal(parentPath("/a"), "/");
  assert.equal(parentPath("/"), "/");
});
