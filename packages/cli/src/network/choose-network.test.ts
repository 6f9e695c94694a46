import assert from "node:assert/strict";
import { test } from "node:test";
import { chooseNetwork, readNetworkWish, type NetworkWishes } from "./choose-network.ts";

const wishes: NetworkWishes = {
  wanted: "auto",
  before: undefined,
  path: "/nowhere",
  signal: AbortSignal.timeout(60_000),
};
const unable = { findMissing: async () => "it needs root" };
const able = { findMissing: async () => undefined };

test("auto is the best that the machine can do, and says what is missing", async () => {
  assert.deepEqual(await chooseNetwork(wishes, able), { network: "cni", isReplaceable: true });
  assert.deepEqual(await chooseNetwork(wishes, unable), { network: "user", missing: "it needs root" });
});

test("a platform keeps the network it has", async () => {
  assert.deepEqual(await chooseNetwork({ ...wishes, before: "user" }, able), { network: "user" });
  assert.deepEqual(await chooseNetwork({ ...wishes, before: "cni" }, able), { network: "cni" });
  await assert.rejects(chooseNetwork({ ...wishes, before: "cni" }, unable), /it needs root/);
  for (const [wanted, before] of [
    ["user", "cni"],
    ["cni", "user"],
  ] as const)
    await assert.rejects(chooseNetwork({ ...wishes, wanted, before }, able), /down -- --wipe/);
});

test("what was asked for is not replaced by something else", async () => {
  await assert.rejects(chooseNetwork({ ...wishes, wanted: "cni" }, unable), /it needs root/);
  assert.deepEqual(await chooseNetwork({ ...wishes, wanted: "user" }, able), { network: "user" });
});

test("without a wish a platform keeps what it has, and a new one has the best there is", () => {
  assert.equal(readNetworkWish(undefined, "cni"), "cni");
  assert.equal(readNetworkWish(undefined, "user"), "user");
  assert.equal(readNetworkWish(undefined, undefined), "auto");
  assert.equal(readNetworkWish("auto", "user"), "auto");
  assert.throws(() => readNetworkWish("bridge", undefined), /not one of auto, cni, user/);
});
