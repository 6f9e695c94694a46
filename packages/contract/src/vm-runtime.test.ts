import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { annotation, legacyAnnotation } from "./keys.ts";
import { clearedVmRuntime, readVmRuntime, writeVmRuntime } from "./vm-runtime.ts";

test("every runtime survives being written and read", () => {
  const runtime = fc.record(
    { vmId: fc.string(), ip: fc.ipV4(), vncPort: fc.nat(65_535) },
    { noNullPrototype: true },
  );
  fc.assert(
    fc.property(runtime, fc.boolean(), (value, legacyKeys) => {
      assert.deepEqual(readVmRuntime(writeVmRuntime(value, { legacyKeys })), value);
    }),
  );
});

test("a port that cannot be read is no port", () => {
  const table: readonly (readonly [string, number])[] = [
    ["5907", 5907],
    ["2147483647", 2_147_483_647],
    ["2147483648", 0],
    ["-2147483648", 0],
    ["99999999999", 0],
    ["", 0],
    ["vnc", 0],
    ["5907.0", 0],
    [" 5907", 0],
    ["0x10", 0],
  ];
  for (const [text, port] of table)
    assert.equal(readVmRuntime({ [annotation.vncPort]: text }).vncPort, port, text);
});

test("what is empty is not written; what is gone is removed, older keys too", () => {
  assert.deepEqual(writeVmRuntime({ vmId: "", ip: "10.0.0.1", vncPort: -1 }), {
    [annotation.ip]: "10.0.0.1",
  });
  assert.deepEqual(clearedVmRuntime(), {
    [annotation.vmId]: null,
    [annotation.ip]: null,
    [legacyAnnotation.vmId]: null,
    [legacyAnnotation.ip]: null,
  });
});
