import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { planParts } from "./s3-upload.ts";

const mebibyte = 2 ** 20;

test("parts cover the file exactly, within the limits of the protocol", () => {
  fc.assert(
    fc.property(fc.integer({ min: 16 * mebibyte + 1, max: 5 * 2 ** 40 }), (sizeBytes) => {
      const parts = planParts(sizeBytes);
      assert.ok(parts.length <= 10_000);
      let at = 0;
      for (const [index, part] of parts.entries()) {
        assert.equal(part.number, index + 1);
        assert.equal(part.start, at);
        assert.ok(part.length > 0 && (part.length >= 5 * mebibyte || index === parts.length - 1));
        at += part.length;
      }
      assert.equal(at, sizeBytes);
    }),
    { numRuns: 50 },
  );
});
