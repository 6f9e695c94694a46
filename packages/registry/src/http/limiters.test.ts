import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Limiters } from "./limiters.ts";

describe("limiters", () => {
  it("let a burst through, then the steady rate", () => {
    let now = 0;
    const limiters = new Limiters({ requestsPerSecond: 10, failuresPerMinute: 0, now: () => now });
    for (let sent = 0; sent < 20; sent += 1) limiters.assertNotTooFast("a");
    assert.throws(() => limiters.assertNotTooFast("a"), { code: "tooManyRequests", retryAfterMs: 100 });
    limiters.assertNotTooFast("b");
    now += 100;
    limiters.assertNotTooFast("a");
    assert.throws(() => limiters.assertNotTooFast("a"), /too many requests/);
  });

  it("stop an address after too many failures, for as long as it takes", () => {
    let now = 0;
    const limiters = new Limiters({ requestsPerSecond: 0, failuresPerMinute: 3, now: () => now });
    for (let failed = 0; failed < 3; failed += 1) {
      limiters.countFailure("a");
    }
    assert.throws(() => limiters.countFailure("a"), { code: "tooManyRequests" });
    limiters.countFailure("b");
    now += 20_000;
    limiters.countFailure("a");
  });

  it("do nothing when switched off", () => {
    const limiters = new Limiters({ requestsPerSecond: 0, failuresPerMinute: 0 });
    for (let sent = 0; sent < 1_000; sent += 1) {
      limiters.assertNotTooFast("a");
      limiters.countFailure("a");
    }
  });
});
