import assert from "node:assert/strict";
import { test } from "node:test";
import {
  Fault,
  faultCodes,
  getErrorMessage,
  getTraits,
  ignoreFault,
  isFault,
  toFault,
  type FaultCode,
} from "./fault.ts";

test("every code has a client or server status and a reason", () => {
  for (const code of faultCodes) {
    const traits = getTraits(code);
    assert.ok(traits.status >= 400 && traits.status < 600, code);
    assert.match(traits.reason, /^[A-Z][A-Za-z]+$/);
  }
});

test("an unanswered request is never an absent object", () => {
  const refused = toFault(Object.assign(new Error("connect"), { code: "ECONNREFUSED" }));
  const missing = toFault(Object.assign(new Error("open"), { code: "ENOENT" }));
  assert.equal(refused.code, "unavailable");
  assert.equal(missing.code, "notFound");
});

test("context is added in front and the code, the causes and the wait survive", () => {
  const inner = new Fault("tooManyRequests", "slow down", {
    retryAfterMs: 700,
    causes: [{ field: "a", message: "b" }],
  });
  const outer = toFault(inner, "list pods");
  assert.equal(outer.message, "list pods: slow down");
  assert.equal(outer.retryAfterMs, 700);
  assert.deepEqual(outer.causes, inner.causes);
  assert.ok(isFault(outer, "tooManyRequests"));
});

test("a message names each cause once", () => {
  const error = new Error("cannot start etcd", {
    cause: new Error("port taken", { cause: new Error("port taken") }),
  });
  assert.equal(getErrorMessage(error), "cannot start etcd: port taken");
});

test("one code is ignored, everything else is thrown on", async () => {
  const fail = (code: FaultCode) => (): never => {
    throw new Fault(code, "x");
  };
  assert.equal(
    ignoreFault("invalid", () => 1),
    1,
  );
  assert.equal(ignoreFault("invalid", fail("invalid")), undefined);
  assert.throws(() => ignoreFault("invalid", fail("unavailable")), { code: "unavailable" });
  assert.equal(await ignoreFault("notFound", Promise.resolve(2)), 2);
  assert.equal(await ignoreFault("notFound", Promise.reject(new Fault("notFound", "x"))), undefined);
  await assert.rejects(ignoreFault("notFound", Promise.reject(new Fault("timeout", "x"))), {
    code: "timeout",
  });
});
