import assert from "node:assert/strict";
import { test } from "node:test";
import { Fault } from "@cocoon/core";
import { withInterpreter } from "./elf-interpreter.ts";

/** A program with one header, whose loader's path has that much room. */
function program(interpreter: string): Buffer {
  const path = Buffer.from(`${interpreter}\0`);
  const file = Buffer.alloc(128 + path.length);
  file.set([0x7f, 0x45, 0x4c, 0x46, 2, 1]);
  file.writeBigUInt64LE(64n, 32);
  file.writeUInt16LE(56, 54);
  file.writeUInt16LE(1, 56);
  file.writeUInt32LE(3, 64);
  file.writeBigUInt64LE(128n, 64 + 8);
  file.writeBigUInt64LE(BigInt(path.length), 64 + 32);
  path.copy(file, 128);
  return file;
}

test("a shorter loader path replaces the old one and nothing else", () => {
  const before = program("/lib64/ld-linux-x86-64.so.2");
  const after = withInterpreter(before, "/run/x/ld.so");
  assert.equal(after.subarray(128).toString().replace(/\0+$/, ""), "/run/x/ld.so");
  assert.deepEqual(after.subarray(0, 128), before.subarray(0, 128));
  assert.equal(
    before.subarray(128, 155).toString(),
    "/lib64/ld-linux-x86-64.so.2",
    "the input is not changed",
  );
});

for (const [name, file, path] of [
  ["a path that does not fit", program("/a"), "/much/longer"],
  ["a file that is no program", Buffer.alloc(200), "/a"],
] as const) {
  test(`${name} is refused`, () => {
    assert.throws(
      () => withInterpreter(file, path),
      (error) => error instanceof Fault && error.code === "invalid",
    );
  });
}
