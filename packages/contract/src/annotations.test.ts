import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { annotationPatch, readFlag, readText, type AnnotationPatch } from "./annotations.ts";

test("a text that is empty or missing gives way to its older twin", () => {
  assert.equal(readText({ a: "1", b: "2" }, "a", "b"), "1");
  assert.equal(readText({ a: "", b: "2" }, "a", "b"), "2");
  assert.equal(readText({ b: "2" }, "a", "b"), "2");
  assert.equal(readText({ b: "2" }, "a"), "");
  assert.equal(readText(undefined, "a", "b"), "");
});

test("only the literal true is true, and a key that is present decides", () => {
  const table: readonly (readonly [Record<string, string> | undefined, boolean])[] = [
    [{ a: "true" }, true],
    [{ a: "True" }, false],
    [{ a: "1" }, false],
    [{ a: " true" }, false],
    [{ a: "false", b: "true" }, false],
    [{ a: "", b: "true" }, false],
    [{ b: "true" }, true],
    [{}, false],
    [undefined, false],
  ];
  for (const [annotations, flag] of table)
    assert.equal(readFlag(annotations, "a", "b"), flag, JSON.stringify(annotations));
});

function applied(annotations: Readonly<Record<string, string>>, patch: AnnotationPatch | undefined) {
  const next: Record<string, string> = { ...annotations };
  for (const [key, value] of Object.entries(patch?.metadata.annotations ?? {})) {
    if (value === null) delete next[key];
    else next[key] = value;
  }
  return next;
}

const key = fc.constantFrom("a", "b", "c", "d");
const texts = fc.dictionary(key, fc.constantFrom("x", "y"), { noNullPrototype: true });
const wishes = fc.dictionary(key, fc.constantFrom("x", "y", null), { noNullPrototype: true });

test("a patch brings exactly the wanted values about and touches nothing else", () => {
  fc.assert(
    fc.property(texts, wishes, (current, wanted) => {
      const next = applied(current, annotationPatch(current, wanted));
      for (const each of ["a", "b", "c", "d"])
        assert.equal(next[each], each in wanted ? (wanted[each] ?? undefined) : current[each]);
    }),
  );
});

test("once applied there is nothing left to patch", () => {
  fc.assert(
    fc.property(texts, wishes, (current, wanted) => {
      assert.equal(annotationPatch(applied(current, annotationPatch(current, wanted)), wanted), undefined);
    }),
  );
  assert.equal(annotationPatch(undefined, { a: null }), undefined);
  assert.deepEqual(annotationPatch(undefined, { a: "x" }), { metadata: { annotations: { a: "x" } } });
});
