import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { ApiError } from "../http/answer.ts";
import { tryReadTarget } from "./target.ts";

test("a sandbox is named by headers or by the first label of the host", () => {
  const named = { kind: "sandbox", id: "iabc", port: 8080 };
  assert.deepEqual(tryReadTarget({ headers: { host: "8080-iabc.sbx.test:8443" } }), named);
  assert.deepEqual(tryReadTarget({ headers: { host: "8080-iabc-6532622b.sbx.test" } }), named);
  assert.deepEqual(tryReadTarget({ headers: { host: "8080-iabc.sbx.test" } }, "sbx.test:8443"), named);
  const headers = { "e2b-sandbox-id": "iabc", "e2b-sandbox-port": "8080", host: "1-other.test" };
  assert.deepEqual(tryReadTarget({ headers }), named);
  assert.equal(tryReadTarget({ headers: { host: "api.sbx.test" } }, "sbx.test"), undefined);
  assert.equal(tryReadTarget({ headers: { host: "127.0.0.1:3000" } }), undefined);
});

test("a machine is named by headers, or by two labels before the domain", () => {
  const named = { kind: "machine", namespace: "team-a", machine: "demo-0", port: 8080 };
  const host = "8080-demo-0.team-a.sbx.test:8443";
  assert.deepEqual(tryReadTarget({ headers: { host } }, "sbx.test:8443"), named);
  const local = { host: "8080-demo-0.team-a.localhost:3000" };
  assert.deepEqual(tryReadTarget({ headers: local }), named, "without a domain");
  const headers = { "cocoon-machine": "team-a/demo-0", "cocoon-port": "8080", host: "127.0.0.1" };
  assert.deepEqual(tryReadTarget({ headers }), named);
});

test("half a target, or one outside of the rules, is refused", () => {
  const read = (headers: Record<string, string>) => () => tryReadTarget({ headers }, "sbx.test");
  assert.throws(read({ "e2b-sandbox-id": "iabc" }), /missing header E2b-Sandbox-Port/);
  assert.throws(read({ "cocoon-machine": "a/b" }), /missing header Cocoon-Port/);
  assert.throws(read({ "cocoon-machine": "a/../b", "cocoon-port": "1" }), /NAMESPACE\/MACHINE/);
  assert.throws(read({ host: "99999-iabc.test" }), /Invalid sandbox port/);
  assert.throws(read({ host: "80-ABC.test" }), /Invalid sandbox ID/);
});

test("whatever a host says, the answer is a target, none, or 400", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary-ascii" }), fc.string(), (host, name) => {
      for (const headers of [{ host: `${host}.sbx.test` }, { "cocoon-machine": name, "cocoon-port": host }])
        try {
          const target = tryReadTarget({ headers }, "sbx.test");
          if (target?.kind === "machine") assert.match(target.machine, /^[a-z0-9-]+$/);
        } catch (error) {
          assert.ok(error instanceof ApiError && error.status === 400);
        }
    }),
  );
});
