import assert from "node:assert/strict";
import { test } from "node:test";
import { testSeed, count } from "@cocoon/testkit";
import fc from "fast-check";
import { applyPatch, difference, parsePointer, pointer, setMetadata } from "./json-patch.ts";

const runs = { numRuns: count({ small: 300, full: 3000 }), seed: testSeed() };

/** As JSON has it: no -0, no undefined. Keys that need escaping are likely. */
const key = fc.oneof(
  fc.string({ maxLength: 4 }),
  fc.constantFrom("a/b", "~", "~1", "", "__proto__", "0", "-"),
);
const { json } = fc.letrec<{ json: unknown }>((tie) => ({
  json: fc.oneof(
    { depthSize: "small" },
    fc.constantFrom<unknown>(null, true, false, 0, 1, "x", ""),
    fc.array(tie("json"), { maxLength: 4 }),
    fc.array(fc.tuple(key, tie("json")), { maxLength: 4 }).map((entries) => Object.fromEntries(entries)),
  ),
}));

test("a pointer gives back the segments that it was made of", () => {
  fc.assert(
    fc.property(fc.array(fc.string()), (segments) => {
      assert.deepEqual(parsePointer(pointer(...segments)), segments);
    }),
    runs,
  );
});

test("pointers escape as RFC 6901 has it", () => {
  assert.equal(pointer("metadata", "annotations", "a.io/b~c"), "/metadata/annotations/a.io~1b~0c");
  assert.equal(pointer("spec", "containers", 0), "/spec/containers/0");
  assert.equal(pointer(), "");
  for (const bad of ["a", "/~2", "/~"]) assert.throws(() => parsePointer(bad), { code: "invalid" });
});

test("a difference, applied, gives the other document, and none is made of equal ones", () => {
  fc.assert(
    fc.property(json, json, (before, after) => {
      assert.deepEqual(applyPatch(before, difference(before, after)), after);
      assert.deepEqual(difference(after, structuredClone(after)), []);
    }),
    runs,
  );
});

test("applying leaves the given document alone", () => {
  fc.assert(
    fc.property(json, json, (before, after) => {
      const copy = structuredClone(before);
      applyPatch(before, difference(before, after));
      assert.deepEqual(before, copy);
    }),
    runs,
  );
});

test("a difference stays at the deepest place", () => {
  const before = { spec: { containers: [{ name: "a", image: "x" }], nodeName: "n" } };
  const after = { spec: { containers: [{ name: "a", image: "y" }, { name: "b" }] }, status: {} };
  assert.deepEqual(difference(before, after), [
    { op: "replace", path: "/spec/containers/0/image", value: "y" },
    { op: "add", path: "/spec/containers/-", value: { name: "b" } },
    { op: "remove", path: "/spec/nodeName" },
    { op: "add", path: "/status", value: {} },
  ]);
});

test("test, move and copy behave as RFC 6902 has them", () => {
  const document = { a: { b: 1 }, list: [1, 2] };
  const patched = applyPatch(document, [
    { op: "test", path: "/a", value: { b: 1 } },
    { op: "copy", from: "/a/b", path: "/list/1" },
    { op: "move", from: "/a/b", path: "/c" },
  ]);
  assert.deepEqual(patched, { a: {}, list: [1, 1, 2], c: 1 });
  assert.throws(() => applyPatch(document, [{ op: "test", path: "/a/b", value: 2 }]), { code: "invalid" });
  for (const path of ["/x/y", "/list/5", "/list/01", "/a/b/c"])
    assert.throws(() => applyPatch(document, [{ op: "add", path, value: 1 }]), { code: "invalid" }, path);
});

test("annotations are set without touching the others, and their parents are made when missing", () => {
  const values = { "example.com/x": "1", y: "2" };
  for (const object of [
    {},
    { metadata: {} },
    { metadata: { annotations: null } },
    { metadata: { annotations: { y: "1", z: "3" }, name: "n" } },
  ]) {
    const patched = applyPatch(object, setMetadata(object, "annotations", values)) as {
      metadata: { annotations: Record<string, string> };
    };
    const kept = (object as { metadata?: { annotations?: object | null } }).metadata?.annotations ?? {};
    assert.deepEqual(patched.metadata.annotations, { ...kept, ...values });
  }
  assert.deepEqual(setMetadata({ metadata: { labels: { a: "b" } } }, "labels", { a: "b" }), []);
});
