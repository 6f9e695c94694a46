import assert from "node:assert/strict";
import { test } from "node:test";
import { classifyRequest } from "./allowed-requests.ts";

const set = "/apis/cocoonset.cocoonstack.io/v1/namespaces/a/cocoonsets";

test("what the page asks for is passed on, as what it is", () => {
  assert.equal(classifyRequest("GET", "/apis/cocoonset.cocoonstack.io/v1/cocoonsets"), "read");
  assert.equal(classifyRequest("POST", set), "change");
  assert.equal(classifyRequest("DELETE", `${set}/demo`), "change");
  assert.equal(classifyRequest("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"), "read");
  assert.equal(classifyRequest("GET", "/api/v1/namespaces/a/pods/demo-0/log"), "read");
  assert.equal(classifyRequest("GET", "/api/v1/namespaces/a/pods/demo-0/exec", { upgrade: true }), "upgrade");
});

test("pages that a machine writes, secrets, and whatever else is not needed are not", () => {
  const refused = [
    ["GET", "/api/v1/namespaces/a/pods/demo-0/proxy/"],
    ["GET", "/api/v1/nodes/n/proxy/logs/"],
    ["GET", "/api/v1/namespaces/a/services/s/proxy/"],
    ["GET", "/api/v1/namespaces/a/secrets"],
    ["POST", "/api/v1/namespaces/a/serviceaccounts/x/token"],
    ["GET", "/api/v1/namespaces/a/pods/demo-0/exec"],
    ["POST", "/api/v1/namespaces/a/pods/demo-0/exec"],
    ["PUT", `${set}/demo`],
    ["DELETE", set],
    ["GET", "/api/v1/namespaces/a/pods/../../secrets/log"],
    ["GET", "/api/v1/namespaces/a/pods/demo-0/log/x"],
    ["GET", "/"],
  ] as const;
  for (const [method, path] of refused)
    assert.equal(classifyRequest(method, path), undefined, `${method} ${path}`);
  assert.equal(
    classifyRequest("GET", "/api/v1/namespaces/a/pods/demo-0/portforward", { upgrade: true }),
    undefined,
  );
});
