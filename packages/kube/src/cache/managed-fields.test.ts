import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { count, testSeed } from "@cocoon/testkit";
import { parseWithoutManagedFields } from "./managed-fields.ts";

interface Listed {
  readonly items: readonly Record<string, unknown>[];
}

const getItems = (value: Listed) => value.items;

function withoutManagedFields(object: Record<string, unknown>): Record<string, unknown> {
  const { metadata } = object;
  if (typeof metadata !== "object" || metadata === null || Array.isArray(metadata)) return object;
  const { managedFields: _dropped, ...others } = metadata as Record<string, unknown>;
  return { ...object, metadata: others };
}

const entry = {
  manager: "kubectl",
  operation: "Apply",
  fieldsType: "FieldsV1",
  fieldsV1: { "f:spec": { 'k:{"name":"x"}': { ".": {} }, 'v:"a}]b"': {} } },
  time: "2026-01-01T00:00:00Z",
};

test("managed fields are gone, whatever stands around them", () => {
  const objects: Record<string, unknown>[] = [
    { metadata: { name: "last", managedFields: [entry] }, spec: {} },
    { metadata: { managedFields: [entry, entry], name: "first" } },
    { metadata: { name: "none" }, spec: { managedFields: [entry] } },
    { aaa: { metadata: { managedFields: [entry] } }, metadata: { name: "nested", managedFields: [entry] } },
    { metadata: { name: "empty", managedFields: [] } },
    { metadata: { name: "odd", managedFields: 0 } },
    { metadata: { name: "odder", managedFields: "}]" } },
    {
      metadata: {
        name: "text",
        annotations: { last: JSON.stringify({ managedFields: [entry] }) },
        managedFields: [entry],
      },
    },
    { metadata: null },
    {},
  ];
  for (const object of objects) {
    const text = JSON.stringify({ items: [object, object] });
    const expected = { items: [withoutManagedFields(object), withoutManagedFields(object)] };
    assert.deepEqual(parseWithoutManagedFields<Listed>(text, getItems), expected, text);
  }
  const all = JSON.stringify({ items: objects });
  assert.deepEqual(parseWithoutManagedFields<Listed>(all, getItems), {
    items: objects.map(withoutManagedFields),
  });
});

test("nothing else ever changes: random objects, with keys and texts made to mislead", () => {
  const nasty = fc.constantFrom(
    "managedFields",
    "metadata",
    '"managedFields":[',
    "}]",
    '"}]}',
    "\\",
    '\\"',
    "[{",
    "0",
  );
  const key = fc.oneof(nasty, fc.string({ maxLength: 4 }));
  const value = fc.letrec<{ value: unknown }>((tie) => ({
    value: fc.oneof(
      { maxDepth: 5 },
      nasty,
      fc.integer(),
      fc.constant(null),
      fc.array(tie("value"), { maxLength: 3 }),
      fc.dictionary(key, tie("value"), { maxKeys: 3 }),
    ),
  })).value;
  const managed = fc.array(fc.dictionary(key, value, { maxKeys: 3 }), { maxLength: 2 });
  const metadata = fc.oneof(value, fc.record({ name: nasty, managedFields: fc.oneof(managed, value) }));
  const object = fc.record({ before: value, metadata, after: value }, { requiredKeys: [] });
  fc.assert(
    fc.property(fc.array(object, { maxLength: 3 }), (objects) => {
      const text = JSON.stringify({ items: objects });
      const plain = JSON.parse(text) as Listed;
      const expected = { ...plain, items: plain.items.map(withoutManagedFields) };
      assert.deepEqual(parseWithoutManagedFields<Listed>(text, getItems), expected, text);
    }),
    { seed: testSeed(), numRuns: count({ small: 3_000, full: 100_000 }) },
  );
});

test("text that is not JSON stays an error", () => {
  assert.throws(() => parseWithoutManagedFields('{"metadata":{"managedFields":[{}]', () => []), SyntaxError);
});
