import assert from "node:assert/strict";
import { test } from "node:test";
import { keyCatalogue } from "./key-catalogue.ts";
import * as keys from "./keys.ts";
import { golden } from "./testing/golden.ts";

test("no key changes unseen", () => {
  assert.deepEqual(JSON.parse(JSON.stringify(keys)), golden("keys"));
});

test("every key has a writer and a reader in the catalogue, once", () => {
  const known = [
    ...Object.values(keys.label),
    ...Object.values(keys.annotation),
    ...Object.values(keys.nodeLabel),
    keys.hostTaint.key,
    ...Object.values(keys.setAnnotation),
    ...Object.values(keys.hibernationAnnotation),
    ...Object.values(keys.workloadAnnotation),
    ...Object.values(keys.shardAnnotation),
    ...Object.values(keys.finalizer),
    ...Object.values(keys.legacyLabel),
    ...Object.values(keys.legacyAnnotation),
  ];
  assert.deepEqual(
    keyCatalogue()
      .map((entry) => entry.key)
      .sort(),
    known.sort(),
  );
});
