import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { KeyedLock } from "./keyed-lock.ts";

describe("keyed lock", () => {
  it("runs one after the other per key, and keys beside each other", async () => {
    const lock = new KeyedLock<string>();
    const order: string[] = [];
    const { promise: held, resolve: release } = Promise.withResolvers<void>();
    const first = lock.run("a", async () => {
      await held;
      order.push("a1");
    });
    const second = lock.run("a", async () => void order.push("a2"));
    const other = lock.run("b", async () => void order.push("b"));
    await other;
    release();
    await Promise.all([first, second]);
    assert.deepEqual(order, ["b", "a1", "a2"]);
  });

  it("goes on after a failure", async () => {
    const lock = new KeyedLock<string>();
    const failing = lock.run("a", () => Promise.reject(new Error("no")));
    const next = lock.run("a", async () => "yes");
    await assert.rejects(failing, /no/);
    assert.equal(await next, "yes");
  });
});
