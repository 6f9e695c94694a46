import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import * as keys from "./keys.ts";
import { golden } from "./testing/golden.ts";

test("no key changes unseen", () => {
  assert.deepEqual(JSON.parse(JSON.stringify(keys)), golden("keys"));
});

test("docs/contract.md lists every key once", () => {
  const known = [
    ...Object.values(keys.label),
    ...Object.values(keys.annotation),
    ...Object.values(keys.nodeLabel),
    ...Object.values(keys.nodeAnnotation),
    keys.hostTaint.key,
    ...Object.values(keys.setAnnotation),
    ...Object.values(keys.gatewayKey),
    ...Object.values(keys.hibernationAnnotation),
    ...Object.values(keys.workloadAnnotation),
    ...Object.values(keys.shardAnnotation),
    ...Object.values(keys.finalizer),
    ...Object.values(keys.legacyLabel),
    ...Object.values(keys.legacyAnnotation),
  ];
  const page = readFileSync(new URL("../../../docs/contract.md", import.meta.url), "utf8");
  const documented = [...page.matchAll(/^\| `([^`]+)` \|/gm)].map((row) => row[1] ?? "");
  assert.deepEqual(documented.sort(), known.sort());
});
