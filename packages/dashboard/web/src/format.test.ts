import assert from "node:assert/strict";
import { test } from "node:test";
import { formatAge, formatBytes, readProgress, readQuantity } from "./format.ts";

test("values read as people write them", () => {
  assert.equal(formatBytes(1536), "1.5 KiB");
  assert.equal(formatAge("1970-01-01T00:00:00Z", 3_700_000), "1h1m");
  assert.equal(formatAge("no time"), "");
});

test("progress is read from the message of a machine", () => {
  assert.equal(readProgress("pushing 12 of 64 MiB"), 0.1875);
  assert.equal(readProgress("pulling 70 of 64 MiB"), 1);
  assert.equal(readProgress("writing 0 of 0 MiB"), undefined);
  assert.equal(readProgress("waiting for the node"), undefined);
});

test("quantities of Kubernetes are numbers", () => {
  for (const [text, expected] of [
    ["256Mi", 268_435_456],
    ["1.5Gi", 1_610_612_736],
    ["1024", 1024],
    ["2G", 2e9],
    ["", 0],
    ["many", 0],
    ["1Xi", 0],
  ] as const)
    assert.equal(readQuantity(text), expected, text);
});
