import assert from "node:assert/strict";
import { test } from "node:test";
import { assertSignature, computeSignature } from "./signature.ts";

const token = "0tQG31xiMp0IOQfaz9dcwi72L1CPo8e0";
const request = { path: "hello.txt", operation: "read" as const, username: "user", expiration: undefined };

test("signatures are those that the SDKs compute", () => {
  assert.equal(computeSignature(request, token), "v1_gUtH/s9YCJWgCizjfUxuWfhFE4QSydOWEIIvfLwDr6E");
});

test("a signature is good for its path, operation, user and time, and for nothing else", () => {
  const now = new Date("2026-01-01T00:00:00Z");
  const signed = { ...request, expiration: "1767225600" };
  const signature = computeSignature(signed, token);
  assertSignature({ ...signed, signature }, token, now);
  const late = new Date(now.getTime() + 2_000);
  assert.throws(() => assertSignature({ ...signed, signature }, token, late), /signature is already expired/);
  for (const changed of [
    { path: "other" },
    { operation: "write" as const },
    { username: "" },
    { expiration: "1867225600" },
  ])
    assert.throws(
      () => assertSignature({ ...signed, signature, ...changed }, token, now),
      /invalid signature/,
    );
});
