import assert from "node:assert/strict";
import { test } from "node:test";
import type { FieldCause } from "@cocoon/core";
import { count, testSeed } from "@cocoon/testkit";
import fc from "fast-check";
import { readReview, type Review } from "./read-review.ts";
import { podReview } from "./testing/review-client.ts";
import { allow, allowWithPatch, deny, type Verdict } from "./verdict.ts";
import { writeReview } from "./wire.ts";

const runs = { numRuns: count({ small: 300, full: 3000 }), seed: testSeed() };
const limits = { maxDepth: 64 };
const read = (review: unknown) => readReview(Buffer.from(JSON.stringify(review)), limits);

const text = fc.string({ unit: "binary" });
const object = fc.option(fc.dictionary(text, fc.jsonValue()), { nil: undefined });
const request = fc.record({
  uid: text,
  kind: fc.record({ group: text, version: text, kind: text }),
  resource: fc.record({ group: text, version: text, resource: text }),
  subResource: text,
  name: text,
  namespace: text,
  operation: fc.constantFrom("CREATE", "UPDATE", "DELETE", "CONNECT", "PONDER"),
  userInfo: fc.record({
    username: text,
    uid: text,
    groups: fc.array(text),
    extra: fc.dictionary(text, fc.array(text)),
  }),
  object,
  oldObject: object,
  dryRun: fc.boolean(),
});
const version = fc.constantFrom("admission.k8s.io/v1", "admission.k8s.io/v1beta1");

/** JSON has no -0 and gives back plain objects. */
const asJson = (value: unknown): unknown => JSON.parse(JSON.stringify(value));

test("a request that was written is read back as it was, in either version", () => {
  fc.assert(
    fc.property(request, version, (given, apiVersion) => {
      const review = read({ apiVersion, kind: "AdmissionReview", request: given });
      assert.equal(review.version, apiVersion);
      assert.deepEqual(asJson(review.request), asJson(given));
    }),
    runs,
  );
});

const remarks = {
  warnings: fc.array(text, { minLength: 1, maxLength: 3 }),
  auditAnnotations: fc.dictionary(text, text, { minKeys: 1 }),
};
const cause = fc.record<FieldCause>({ field: text, message: text, reason: text });
const verdict: fc.Arbitrary<Verdict> = fc.oneof(
  fc.record({ kind: fc.constant("allow" as const), ...remarks }, { requiredKeys: ["kind"] }),
  fc.record({
    kind: fc.constant("allow" as const),
    patch: fc.array(
      fc.record({
        op: fc.constantFrom("add" as const, "replace" as const),
        path: text,
        value: fc.jsonValue(),
      }),
      { minLength: 1 },
    ),
  }),
  fc.record(
    {
      kind: fc.constant("deny" as const),
      code: fc.integer({ min: 400, max: 599 }),
      reason: text,
      message: text,
      causes: fc.array(cause, { minLength: 1 }),
      ...remarks,
    },
    { requiredKeys: ["kind", "code", "reason", "message"] },
  ),
);

/** The reader that the API server is, as far as verdicts go. */
function readVerdict(written: string): { review: Record<string, unknown>; verdict: unknown; uid: unknown } {
  const review = JSON.parse(written) as Record<string, unknown>;
  const { uid, allowed, patch, patchType, status, ...remarks } = review["response"] as {
    uid: string;
    allowed: boolean;
    patch?: string;
    patchType?: string;
    status?: { code: number; reason: string; message: string; details?: { causes: FieldCause[] } };
  };
  if (!allowed) {
    const { code, reason, message, details } = status ?? { code: 0, reason: "", message: "" };
    const causes = details ? { causes: details.causes } : {};
    return { review, uid, verdict: { kind: "deny", code, reason, message, ...causes, ...remarks } };
  }
  assert.equal(patchType, patch === undefined ? undefined : "JSONPatch");
  const decoded =
    patch === undefined ? {} : { patch: JSON.parse(Buffer.from(patch, "base64").toString()) as unknown };
  return { review, uid, verdict: { kind: "allow", ...decoded, ...remarks } };
}

test("a verdict that was written is read back as it was, with the uid and the version of the request", () => {
  fc.assert(
    fc.property(request, version, verdict, (given, apiVersion, decided) => {
      const review = read({ apiVersion, kind: "AdmissionReview", request: given });
      const written = writeReview(review, decided);
      assert.match(written, /^[\u0020-\u007e]*$/, "only ASCII: its length is its size");
      const back = readVerdict(written);
      assert.equal(back.uid, given.uid);
      assert.equal(back.review["apiVersion"], apiVersion);
      assert.equal(back.review["kind"], "AdmissionReview");
      assert.deepEqual(asJson(back.verdict), asJson(decided));
    }),
    runs,
  );
});

test("what a review may lack is empty, and a dry run is seen", () => {
  const { request, version } = read({ request: {} });
  assert.equal(version, "admission.k8s.io/v1");
  assert.deepEqual(
    { uid: request.uid, operation: request.operation, dryRun: request.dryRun, object: request.object },
    { uid: "", operation: "", dryRun: false, object: undefined },
  );
  assert.deepEqual(request.userInfo, { username: "", uid: "", groups: [], extra: {} });
  assert.equal(read(podReview({ dryRun: true })).request.dryRun, true);
});

const notReviews: readonly [string, string | Buffer, RegExp][] = [
  ["nothing", "", /empty/],
  ["not JSON", "{nope", /not valid JSON/],
  ["text after the review", '{"request":{}} x', /not valid JSON/],
  ["a byte order mark", "\ufeff{}", /not valid JSON/],
  ["half a string", '{"request":"', /not valid JSON/],
  ["null", "null", /must be an AdmissionReview/],
  ["a list", "[]", /must be an object/],
  ["a number", "7", /must be an object/],
  ["no request", "{}", /missing request/],
  ["a null request", '{"request":null}', /missing request/],
  ["a request that is text", '{"request":"x"}', /request must be an object/],
  ["another kind", '{"kind":"Pod","apiVersion":"v1","request":{}}', /AdmissionReview of/],
  ["another version", '{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v2","request":{}}', /v2/],
  [
    "a version from the prototype",
    '{"kind":"AdmissionReview","apiVersion":"constructor","request":{}}',
    /constr/,
  ],
  ["a uid that is a number", '{"request":{"uid":5}}', /uid must be a string/],
  ["a kind that is text", '{"request":{"kind":"Pod"}}', /kind must be an object/],
  ["an object that is a list", '{"request":{"object":[]}}', /request.object must be an object/],
  ["a dry run that is text", '{"request":{"dryRun":"true"}}', /dryRun/],
  ["groups that are numbers", '{"request":{"userInfo":{"groups":[1]}}}', /userInfo.groups/],
  ["too deep", `{"request":{"object":${'{"a":'.repeat(70)}1${"}".repeat(70)}}}`, /deeper than 64/],
];

for (const [name, body, message] of notReviews)
  test(`refused as a bad request: ${name}`, () => {
    assert.throws(() => readReview(Buffer.from(body), limits), { code: "badRequest", message });
  });

test("the refusal of what is not JSON does not repeat it", () => {
  const secret = '{"request":{"object":{"data":"hunter2" oops';
  assert.throws(
    () => readReview(Buffer.from(secret), limits),
    (error: Error) => !error.message.includes("hunter2"),
  );
});

test("verdicts look on the wire as the API server expects them", () => {
  const review: Review = read(podReview());
  const responseTo = (verdict: Verdict): unknown =>
    (JSON.parse(writeReview(review, verdict)) as { response: unknown }).response;
  const uid = review.request.uid;
  assert.deepEqual(responseTo(allow()), { uid, allowed: true });
  assert.deepEqual(responseTo(allowWithPatch([])), { uid, allowed: true });
  assert.deepEqual(responseTo(deny("no")), {
    uid,
    allowed: false,
    status: { metadata: {}, status: "Failure", message: "no", reason: "Forbidden", code: 403 },
  });
  const causes = [{ field: "spec.a", message: "must be set" }];
  assert.deepEqual(responseTo(deny("spec.a: must be set", { code: 422, reason: "Invalid", causes })), {
    uid,
    allowed: false,
    status: {
      metadata: {},
      status: "Failure",
      message: "spec.a: must be set",
      reason: "Invalid",
      details: {
        name: "demo",
        kind: "Pod",
        causes: [{ reason: "FieldValueInvalid", message: "must be set", field: "spec.a" }],
      },
      code: 422,
    },
  });
});
