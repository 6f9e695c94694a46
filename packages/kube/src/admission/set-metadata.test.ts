import assert from "node:assert/strict";
import { test } from "node:test";
import { applyJsonPatch } from "@cocoon/core/json-patch";
import { setMetadata } from "./set-metadata.ts";

test("annotations are set without touching the others, and their parents are made when missing", () => {
  const values = { "example.com/x": "1", y: "2" };
  for (const object of [
    {},
    { metadata: {} },
    { metadata: { annotations: null } },
    { metadata: { annotations: { y: "1", z: "3" }, name: "n" } },
  ]) {
    const patched = applyJsonPatch(object, setMetadata(object, "annotations", values)) as {
      metadata: { annotations: Record<string, string> };
    };
    const kept = (object as { metadata?: { annotations?: object | null } }).metadata?.annotations ?? {};
    assert.deepEqual(patched.metadata.annotations, { ...kept, ...values });
  }
  assert.deepEqual(setMetadata({ metadata: { labels: { a: "b" } } }, "labels", { a: "b" }), []);
});
