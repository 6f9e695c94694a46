import assert from "node:assert/strict";
import { test } from "node:test";
import { buildReview, startTestWebhooks } from "../testing/webhook-server.ts";

interface Fault {
  readonly response: {
    readonly uid: string;
    readonly allowed: boolean;
    readonly status: { readonly code: number; readonly message: string };
  };
}

const pod = { metadata: { name: "a" }, spec: { containers: [{ name: "c" }] } };

test("what cannot be read is answered with 200, no version and an empty uid", async () => {
  await using webhooks = await startTestWebhooks();
  const cases: readonly [
    name: string,
    body: string | Buffer,
    code: number,
    message: RegExp,
    type?: string,
  ][] = [
    [
      "too large",
      Buffer.alloc(7 * 1024 * 1024, 0x20),
      413,
      /^request entity is too large; limit is 7340032 bytes$/,
    ],
    ["empty", "", 400, /^request body is empty$/],
    [
      "charset",
      "{}",
      400,
      /^contentType=application\/json; charset=utf-8, expected application\/json$/,
      "application/json; charset=utf-8",
    ],
    ["other type", "{}", 400, /^contentType=text\/plain, expected application\/json$/, "text/plain"],
    ["not JSON", "{", 400, /not valid JSON/],
    ["text after it", "{} x", 400, /not valid JSON/],
    ["a list", "[]", 400, /must be an AdmissionReview/],
    ["too deep", "[".repeat(5000), 400, /nests deeper/],
  ];
  for (const [name, body, code, message, type = "application/json"] of cases) {
    const { status, text } = await webhooks.send("/mutate-pod", body, { "content-type": type });
    assert.equal(status, 200, name);
    const answer = JSON.parse(text) as Fault;
    assert.deepEqual(Object.keys(answer), ["response"], name);
    assert.equal(answer.response.uid, "", name);
    assert.equal(answer.response.allowed, false, name);
    assert.equal(answer.response.status.code, code, name);
    assert.match(answer.response.status.message, message, name);
  }
});

test("one byte below the limit is read", async () => {
  await using webhooks = await startTestWebhooks();
  const body = Buffer.alloc(7 * 1024 * 1024 - 1, 0x20);
  body.write("{}");
  const { text } = await webhooks.send("/mutate-pod", body);
  assert.equal((JSON.parse(text) as Fault).response.allowed, true);
});

test("a review without a request is about no resource and allowed", async () => {
  await using webhooks = await startTestWebhooks();
  for (const body of ["{}", "null", '{"request":null}', '{"request":{}}', "\uFEFF{}"]) {
    const { text } = await webhooks.send("/validate-pod", body);
    assert.deepEqual(JSON.parse(text), {
      apiVersion: "admission.k8s.io/v1",
      kind: "AdmissionReview",
      response: { uid: "", allowed: true, status: { metadata: {}, code: 200 } },
    });
  }
});

test("version and kind come back as they came", async () => {
  await using webhooks = await startTestWebhooks();
  for (const apiVersion of ["admission.k8s.io/v1", "admission.k8s.io/v1beta1", "example.com/v9"]) {
    const review = { ...buildReview("/validate-pod", { object: pod }), apiVersion };
    const answer = await webhooks.post("/validate-pod", review);
    assert.equal(answer["apiVersion"], apiVersion);
  }
});

test("an object that is missing or of another kind is refused with 400", async () => {
  await using webhooks = await startTestWebhooks({
    featureGates: "NodeMutatingWebhook=true,ConfigMapValidatingWebhook=true",
  });
  for (const path of ["/mutate-pod", "/validate-pod", "/validate-configmap"]) {
    const response = await webhooks.ask(path, {});
    assert.equal(response.status.code, 400, path);
    assert.equal(response.status.message, "there is no content to decode", path);
  }
  const missingOld = await webhooks.ask("/validate-pod", { operation: "UPDATE", object: pod });
  assert.equal(missingOld.status.message, "there is no content to decode");
  const other = await webhooks.ask("/mutate-pod", { object: { apiVersion: "v1", kind: "Service" } });
  assert.equal(other.status.message, "unable to decode v1, Kind=Service into *v1.Pod");
  const typed = await webhooks.ask("/mutate-pod", { object: { ...pod, spec: { containers: "x" } } });
  assert.equal(typed.status.code, 400);
  assert.match(typed.status.message ?? "", /spec\.containers/);
  const deleted = await webhooks.ask("/mutate-pod", { operation: "DELETE" });
  assert.equal(deleted.status.code, 400);
  const connected = await webhooks.ask("/mutate-pod", { operation: "CONNECT" });
  assert.equal(connected.allowed, true);
});

test("other resources and subresources are allowed at once", async () => {
  await using webhooks = await startTestWebhooks({ featureGates: "NodeMutatingWebhook=true" });
  const services = { group: "", version: "v1", resource: "services" };
  assert.equal((await webhooks.ask("/validate-pod", { resource: services })).allowed, true);
  assert.equal((await webhooks.ask("/validate-pod", { subResource: "status" })).allowed, true);
  assert.equal((await webhooks.ask("/mutate-node-status", { subResource: "" })).allowed, true);
});

test("a gate that is off has no endpoint", async () => {
  await using webhooks = await startTestWebhooks();
  for (const path of ["/mutate-node-status", "/validate-node", "/validate-configmap", "/mutate-reservation"])
    assert.equal((await webhooks.send(path, "{}")).status, 404, path);
  await using none = await startTestWebhooks({ featureGates: "WebhookFramework=false" });
  assert.equal((await none.send("/mutate-pod", "{}")).status, 404);
});

test("/healthz answers 200", async () => {
  await using webhooks = await startTestWebhooks();
  assert.equal((await webhooks.send("/healthz", "")).status, 200);
});
