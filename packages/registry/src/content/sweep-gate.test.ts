import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { computeDigest } from "../names.ts";
import { SweepGate } from "./sweep-gate.ts";

const digest = computeDigest(Buffer.from("x"));
const other = computeDigest(Buffer.from("y"));

describe("sweep gate", () => {
  it("removes what no request uses", async () => {
    const gate = new SweepGate();
    using sweep = gate.beginSweep();
    let removed = 0;
    assert.equal(await sweep.tryRemove(digest, async () => void (removed += 1)), true);
    assert.equal(removed, 1);
  });

  it("leaves alone what is in use, was in use when the sweep began, or was used since", async () => {
    const gate = new SweepGate();
    const { promise: held, resolve: release } = Promise.withResolvers<void>();
    const user = gate.use(digest, () => held);
    using sweep = gate.beginSweep();
    const never = () => assert.fail("must not be removed");
    assert.equal(await sweep.tryRemove(digest, never), false);
    release();
    await user;
    assert.equal(await sweep.tryRemove(digest, never), false, "in use when it began");
    await gate.useAll([other], async () => undefined);
    assert.equal(await sweep.tryRemove(other, never), false, "used since");
  });

  it("makes a user wait for the removal of that blob, and of no other", async () => {
    const gate = new SweepGate();
    using sweep = gate.beginSweep();
    const { promise: held, resolve: release } = Promise.withResolvers<void>();
    const removal = sweep.tryRemove(digest, () => held);
    const order: string[] = [];
    const waiting = gate.use(digest, async () => void order.push("after removal"));
    await gate.use(other, async () => void order.push("other"));
    release();
    await Promise.all([removal, waiting]);
    assert.deepEqual(order, ["other", "after removal"]);
  });

  it("forgets who used what when the sweep ends", async () => {
    const gate = new SweepGate();
    {
      using _first = gate.beginSweep();
      await gate.use(digest, async () => undefined);
    }
    using second = gate.beginSweep();
    assert.equal(await second.tryRemove(digest, async () => undefined), true);
  });

  it("lets users on when a removal fails", async () => {
    const gate = new SweepGate();
    using sweep = gate.beginSweep();
    const failing = sweep.tryRemove(digest, () => Promise.reject(new Error("disk")));
    const user = gate.use(digest, async () => "done");
    await assert.rejects(failing, /disk/);
    assert.equal(await user, "done");
  });
});
