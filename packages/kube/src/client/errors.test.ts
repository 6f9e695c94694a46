import assert from "node:assert/strict";
import { test } from "node:test";
import { readFailedAnswer, readStatusObject, isUnservedKind } from "./errors.ts";

function answer(status: number, body: unknown, retryAfter?: string) {
  const text = typeof body === "string" ? body : JSON.stringify(body);
  return { status, text, retryAfter, what: "get pods" };
}

const status = (code: number, reason: string, details?: unknown) => ({
  kind: "Status",
  code,
  reason,
  message: `${reason}!`,
  details,
});

test("each reason of the API server has its fault", () => {
  const expected: readonly (readonly [number, string, string])[] = [
    [400, "BadRequest", "badRequest"],
    [403, "Forbidden", "forbidden"],
    [404, "NotFound", "notFound"],
    [405, "MethodNotAllowed", "methodNotAllowed"],
    [406, "NotAcceptable", "unsupportedMediaType"],
    [409, "Conflict", "conflict"],
    [409, "AlreadyExists", "alreadyExists"],
    [410, "Expired", "gone"],
    [410, "Gone", "gone"],
    [413, "RequestEntityTooLarge", "tooLarge"],
    [422, "Invalid", "invalid"],
    [429, "TooManyRequests", "tooManyRequests"],
    [500, "InternalError", "internal"],
    [500, "ServerTimeout", "timeout"],
    [503, "ServiceUnavailable", "unavailable"],
    [504, "Timeout", "timeout"],
  ];
  for (const [code, reason, fault] of expected) {
    const found = readFailedAnswer(answer(code, status(code, reason)));
    assert.deepEqual([found.code, found.message], [fault, `${reason}!`], reason);
  }
});

test("a reason that is not known goes by its HTTP status", () => {
  assert.equal(readFailedAnswer(answer(409, status(409, "Surprise"))).code, "conflict");
  assert.equal(readFailedAnswer(answer(418, status(418, "Teapot"))).code, "badRequest");
  assert.equal(readFailedAnswer(answer(599, status(599, "Odd"))).code, "internal");
});

test("field causes and the time to wait are kept", () => {
  const details = {
    causes: [{ field: "spec.size", message: "too small", reason: "FieldValueInvalid" }, { message: "odd" }],
    retryAfterSeconds: 3,
  };
  const fault = readFailedAnswer(answer(422, status(422, "Invalid", details)));
  assert.deepEqual(fault.causes, [
    { field: "spec.size", message: "too small", reason: "FieldValueInvalid" },
    { field: "", message: "odd" },
  ]);
  assert.equal(fault.retryAfterMs, 3000);
  assert.equal(readFailedAnswer(answer(429, status(429, "TooManyRequests"), "2")).retryAfterMs, 2000);
  assert.equal(readFailedAnswer(answer(429, status(429, "TooManyRequests"), "soon")).retryAfterMs, undefined);
  assert.equal(readFailedAnswer(answer(429, "", "1e9")).retryAfterMs, 300_000, "the wait is capped");
});

test("an answer of something else is shown, shortened", () => {
  const fault = readFailedAnswer(answer(502, `<html>${"x".repeat(5000)}`));
  assert.equal(fault.code, "unavailable");
  assert.match(fault.message, /^get pods: HTTP 502: <html>x+$/);
  assert.ok(fault.message.length < 400);
  assert.equal(readFailedAnswer(answer(500, "{not json")).code, "internal");
});

test("a 404 without an object's name means that the kind is not served", () => {
  assert.equal(isUnservedKind(answer(404, "404 page not found\n")), true);
  assert.equal(isUnservedKind(answer(404, status(404, "NotFound", {}))), true);
  assert.equal(isUnservedKind(answer(404, status(404, "NotFound", { name: "web" }))), false);
  assert.equal(isUnservedKind(answer(403, status(403, "Forbidden"))), false);
});

test("a Status inside a watch is a fault too, and so is nonsense in its place", () => {
  assert.equal(readStatusObject(status(410, "Expired"), "watch pods").code, "gone");
  assert.equal(readStatusObject({ kind: "Status", code: 410 }, "watch pods").code, "gone");
  assert.equal(readStatusObject({ kind: "Pod" }, "watch pods").code, "internal");
  assert.equal(readStatusObject(undefined, "watch pods").code, "internal");
});
