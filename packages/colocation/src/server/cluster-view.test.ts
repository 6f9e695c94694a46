import assert from "node:assert/strict";
import { test } from "node:test";
import { SeenUids } from "./cluster-view.ts";

test("what was seen is remembered longer than anything is held, and not for ever", () => {
  let now = 0;
  const seen = new SeenUids(() => now);
  seen.add("a");
  now = 60_000;
  seen.add("b");
  assert.ok(seen.has("a"));
  now = 130_000;
  seen.add("c");
  assert.ok(!seen.has("a"));
  assert.ok(seen.has("b"));
  assert.ok(!seen.has("unknown"));
});
