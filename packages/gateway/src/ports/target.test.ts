import assert from "node:assert/strict";
import { test } from "node:test";
import { tryReadTarget } from "./target.ts";

test("a target is named by headers or by the first label of the host", () => {
  const named = { id: "iabc", port: 8080 };
  assert.deepEqual(tryReadTarget({ headers: { host: "8080-iabc.sbx.test:8443" } }), named);
  assert.deepEqual(tryReadTarget({ headers: { host: "8080-iabc-6532622b.sbx.test" } }), named);
  const headers = { "e2b-sandbox-id": "iabc", "e2b-sandbox-port": "8080", host: "1-other.test" };
  assert.deepEqual(tryReadTarget({ headers }), named);
  assert.equal(tryReadTarget({ headers: { host: "api.sbx.test" } }), undefined);
  assert.equal(tryReadTarget({ headers: { host: "127.0.0.1:3000" } }), undefined);
});

test("half a target is refused", () => {
  assert.throws(
    () => tryReadTarget({ headers: { "e2b-sandbox-id": "iabc" } }),
    /missing header E2b-Sandbox-Port/,
  );
  assert.throws(() => tryReadTarget({ headers: { host: "99999-iabc.test" } }), /Invalid sandbox port/);
  assert.throws(() => tryReadTarget({ headers: { host: "80-ABC.test" } }), /Invalid sandbox ID/);
});
