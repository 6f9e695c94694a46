import assert from "node:assert/strict";
import { test } from "node:test";
import { hashKey, KeyLookup, type KeySecret } from "./key-lookup.ts";
import { ApiError } from "../http/answer.ts";

const hash = hashKey("e2b_1");
const encode = (text: string) => Buffer.from(text).toString("base64");
const secret: KeySecret = {
  metadata: { namespace: "a", name: "cocoon-apikey-x" },
  data: { hash: encode(hash), serviceAccount: encode("robot") },
};

function openLookup(items: readonly KeySecret[]) {
  const paths: string[] = [];
  const raw = async ({ path }: { readonly path: string }) => (paths.push(path), { items });
  return { lookup: new KeyLookup({ raw }), paths };
}

test("a key that the cache has not seen is found at the API server, by its hash", async (t) => {
  const { lookup, paths } = openLookup([secret]);
  const found = await Promise.all([lookup.find(hash, t), lookup.find(hash, t)]);
  assert.equal(found[0]?.user, "system:serviceaccount:a:robot");
  assert.equal(found[1], found[0]);
  assert.equal(paths.length, 1);
  assert.ok(paths[0]?.includes(hash.slice(0, 40)));
});

test("a Secret of another hash, or one that is being revoked, is no key", async (t) => {
  const other = { ...secret, data: { hash: encode(hashKey("e2b_2")) } };
  const revoked = { ...secret, metadata: { ...secret.metadata, deletionTimestamp: "2026-01-01T00:00:00Z" } };
  assert.equal(await openLookup([other, revoked]).lookup.find(hash, t), undefined);
});

test("an unknown key is looked up once, and many unknown keys get 429", async (t) => {
  const { lookup, paths } = openLookup([]);
  await lookup.find(hash, t);
  await lookup.find(hash, t);
  assert.equal(paths.length, 1);
  const refused: unknown[] = [];
  for (let index = 0; index < 300; index += 1)
    try {
      await lookup.find(hashKey(String(index)), t);
    } catch (error) {
      refused.push(error);
    }
  assert.ok(refused.length > 0 && refused.every((each) => each instanceof ApiError && each.status === 429));
  assert.ok(paths.length < 200);
});
