import assert from "node:assert/strict";
import { test } from "node:test";
import { isFault } from "@cocoon/core";
import { judgeFreeSpace } from "./disk-space.ts";

test("a full disk stops up at once, little room is a warning", () => {
  assert.throws(
    () => judgeFreeSpace("/state", 100 * 2 ** 20),
    (error) => isFault(error, "outOfSpace") && /100 MiB free.*--dir/.test(error.message),
  );
  assert.match(judgeFreeSpace("/state", 2 ** 30), /Warning: the disk of \/state has 1024 MiB free/);
  assert.equal(judgeFreeSpace("/state", 2 ** 40), "");
});
