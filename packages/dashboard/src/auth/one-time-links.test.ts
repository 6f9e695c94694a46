import assert from "node:assert/strict";
import { test } from "node:test";
import { OneTimeLinks } from "./one-time-links.ts";

const login = { token: "t", user: "alice" };

test("a link works once", () => {
  const links = new OneTimeLinks();
  const code = links.create(login);
  assert.deepEqual(links.redeem(code), login);
  assert.equal(links.redeem(code), undefined);
  assert.equal(links.redeem("unknown"), undefined);
});

test("a link ends after five minutes", () => {
  let now = 0;
  const links = new OneTimeLinks(() => now);
  const code = links.create(login);
  now = 5 * 60_000;
  assert.equal(links.redeem(code), undefined);
});

test("a hundred links may wait, not more", () => {
  const links = new OneTimeLinks();
  for (let count = 0; count < 100; count += 1) links.create(login);
  assert.throws(() => links.create(login), /100 links wait/);
});
