import assert from "node:assert/strict";
import { test } from "node:test";
import { Fault, isFault } from "@cocoon/core";
import { passLastCheck } from "./last-check.ts";

/** Each answer takes that long, and is what the claim was when it was given. */
function openCheck(answers: readonly { readonly tookMs: number; readonly lost?: boolean }[]) {
  let [now, asked] = [0, 0];
  const verify = () => {
    const answer = answers[asked];
    assert.ok(answer, "asked too often");
    asked += 1;
    now += answer.tookMs;
    return answer.lost ? Promise.reject(new Fault("conflict", "taken over")) : Promise.resolve();
  };
  return { verify, nowMs: () => now, count: () => asked };
}

test("an answer that is fresh lets the guest run", async ({ signal }) => {
  const check = openCheck([{ tookMs: 20 }]);
  await passLastCheck(check, { signal });
  assert.equal(check.count(), 1);
});

test("a kubelet that stood still while it waited for the answer asks again", async ({ signal }) => {
  const check = openCheck([{ tookMs: 60_000 }, { tookMs: 20, lost: true }]);
  await assert.rejects(passLastCheck(check, { signal }), (error) => isFault(error, "conflict"));
});

test("a registry that never answers in time keeps the guest from running", async ({ signal }) => {
  const check = openCheck([{ tookMs: 6_000 }, { tookMs: 6_000 }, { tookMs: 6_000 }]);
  await assert.rejects(passLastCheck(check, { signal }), (error) => isFault(error, "unavailable"));
});
