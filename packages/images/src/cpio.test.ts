import assert from "node:assert/strict";
import { test } from "node:test";
import { directoryMode, fileMode, symlinkMode, writeCpio } from "./cpio.ts";

test("an archive has one aligned member per entry and a trailer", () => {
  const archive = writeCpio([
    { path: "bin", mode: directoryMode },
    { path: "bin/sh", mode: symlinkMode, content: Buffer.from("busybox") },
    { path: "etc-hostname", mode: fileMode, content: Buffer.from("one\n") },
  ]);
  const members: { name: string; mode: number; content: string }[] = [];
  for (let at = 0; at < archive.length;) {
    assert.equal(
      archive.subarray(at, at + 6).toString("latin1"),
      "070701",
      "each member starts on a boundary",
    );
    const field = (index: number) =>
      Number.parseInt(archive.subarray(at + 6 + index * 8, at + 14 + index * 8).toString("latin1"), 16);
    const nameEnd = at + 110 + field(11);
    const start = Math.ceil(nameEnd / 4) * 4;
    const name = archive.subarray(at + 110, nameEnd - 1).toString();
    members.push({ name, mode: field(1), content: archive.subarray(start, start + field(6)).toString() });
    at = Math.ceil((start + field(6)) / 4) * 4;
  }
  assert.deepEqual(members, [
    { name: "bin", mode: directoryMode, content: "" },
    { name: "bin/sh", mode: symlinkMode, content: "busybox" },
    { name: "etc-hostname", mode: fileMode, content: "one\n" },
    { name: "TRAILER!!!", mode: 0, content: "" },
  ]);
});
