import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { count, testSeed } from "@cocoon/testkit";
import fc from "fast-check";
import { isFault } from "./fault.ts";
import {
  applyJsonPatch,
  applyMergePatch,
  createMergePatch,
  diffJson,
  formatPointer,
  jsonEqual,
  maxJsonDepth,
  maxPatchOperations,
  parsePointer,
  testOperation,
  type JsonPatchOperation,
} from "./json-patch.ts";

const runs = { numRuns: count({ small: 500, full: 20_000 }), seed: testSeed() };

/** Keys that break naive code: prototype names, pointer syntax, numbers, empty. */
const key = fc.oneof(
  fc.constantFrom("__proto__", "constructor", "toString", "a/b", "~", "~1", "~01", "", "0", "-", "length"),
  fc.string({ maxLength: 4, unit: "binary" }),
);

function documents(options: { readonly nulls: boolean }): fc.Arbitrary<unknown> {
  const scalars = [
    fc.boolean(),
    fc.integer(),
    fc.double({ noNaN: true, noDefaultInfinity: true }),
    fc.string(),
  ];
  const { tree } = fc.letrec<{ tree: unknown }>((tie) => ({
    tree: fc.oneof(
      { maxDepth: 5, depthSize: "medium" },
      ...scalars,
      ...(options.nulls ? [fc.constant(null)] : []),
      fc.array(tie("tree"), { maxLength: 5 }),
      fc.array(fc.tuple(key, tie("tree")), { maxLength: 5 }).map((entries) => Object.fromEntries(entries)),
    ),
  }));
  return tree;
}

const json = documents({ nulls: true });
const jsonWithoutNulls = documents({ nulls: false });
const clone = (value: unknown): unknown => JSON.parse(JSON.stringify(value));
const fault = (code: string) => (error: unknown) => isFault(error) && error.code === code;

describe("JSON pointer", () => {
  test("any tokens survive formatting and parsing", () => {
    fc.assert(
      fc.property(fc.array(key), (tokens) => {
        assert.deepEqual(parsePointer(formatPointer(tokens)), tokens);
      }),
      runs,
    );
  });

  test("the examples of RFC 6901", () => {
    assert.deepEqual(parsePointer(""), []);
    assert.deepEqual(parsePointer("/"), [""]);
    assert.deepEqual(parsePointer("/a~1b"), ["a/b"]);
    assert.deepEqual(parsePointer("/m~0n"), ["m~n"]);
    assert.deepEqual(parsePointer("/~01"), ["~1"]);
    assert.equal(formatPointer(["metadata", "annotations", "a.io/b"]), "/metadata/annotations/a.io~1b");
  });

  test("malformed pointers are refused", () => {
    for (const pointer of ["a", "a/b", "/~", "/~2", "/a~"])
      assert.throws(() => parsePointer(pointer), fault("invalid"), pointer);
  });
});

describe("diff and apply", () => {
  test("applying the difference of two documents to the first gives the second", () => {
    fc.assert(
      fc.property(json, json, (from, to) => {
        const before = clone(from);
        const operations = diffJson(from, to);
        assert.ok(jsonEqual(applyJsonPatch(from, clone(operations) as JsonPatchOperation[]), to));
        assert.ok(jsonEqual(from, before), "the input was changed");
      }),
      runs,
    );
  });

  test("equal documents have no difference, whatever the order of their properties", () => {
    fc.assert(
      fc.property(json, (document) => {
        assert.deepEqual(diffJson(document, clone(document)), []);
      }),
      runs,
    );
    assert.deepEqual(diffJson({ a: 1, b: [2] }, { b: [2], a: 1 }), []);
  });

  test("small changes give small patches", () => {
    assert.deepEqual(diffJson({ a: [1, 2, 3, 4] }, { a: [1, 3, 4] }), [{ op: "remove", path: "/a/1" }]);
    assert.deepEqual(diffJson({ a: [1, 3] }, { a: [1, 2, 3] }), [{ op: "add", path: "/a/1", value: 2 }]);
    assert.deepEqual(diffJson({ a: { b: 1, c: 2 } }, { a: { b: 1, c: 3 } }), [
      { op: "replace", path: "/a/c", value: 3 },
    ]);
    assert.deepEqual(diffJson(1, 2), [{ op: "replace", path: "", value: 2 }]);
  });

  test("an undefined property is not there, as on the wire", () => {
    assert.deepEqual(diffJson({ a: undefined }, {}), []);
    assert.deepEqual(diffJson({ a: 1 }, { a: undefined }), [{ op: "remove", path: "/a" }]);
    assert.ok(jsonEqual({ a: undefined, b: 1 }, { b: 1 }));
  });

  test("__proto__ is a key like any other and changes no prototype", () => {
    const poisoned: unknown = JSON.parse('{"__proto__": {"polluted": true}}');
    const result = applyJsonPatch({}, diffJson({}, poisoned));
    assert.equal(JSON.stringify(result), '{"__proto__":{"polluted":true}}');
    assert.equal(Object.getPrototypeOf(result), Object.prototype);
    assert.throws(
      () => applyJsonPatch({}, [{ op: "add", path: "/__proto__/polluted", value: true }]),
      fault("invalid"),
    );
    assert.throws(
      () => applyJsonPatch({}, [{ op: "replace", path: "/constructor", value: 1 }]),
      fault("invalid"),
    );
    assert.equal(JSON.stringify(applyMergePatch({}, poisoned)), '{"__proto__":{"polluted":true}}');
    assert.equal(JSON.stringify(createMergePatch({}, poisoned)), '{"__proto__":{"polluted":true}}');
    assert.ok(!("polluted" in {}));
  });

  test("too deep documents are refused with a fault, not a stack overflow", () => {
    const deep = (levels: number, leaf: unknown): unknown => {
      let value = leaf;
      for (let level = 0; level < levels; level += 1) value = level % 2 ? [value] : { a: value };
      return value;
    };
    const tooDeep = (leaf: unknown) => deep(200_000, leaf);
    assert.throws(() => diffJson(tooDeep(1), tooDeep(2)), fault("invalid"));
    assert.throws(() => jsonEqual(tooDeep(1), tooDeep(1)), fault("invalid"));
    assert.throws(() => createMergePatch(tooDeep(1), tooDeep(2)), fault("invalid"));
    let objects: unknown = 1;
    for (let level = 0; level < 200_000; level += 1) objects = { a: objects };
    assert.throws(() => applyMergePatch({}, objects), fault("invalid"));
    assert.throws(() => createMergePatch({}, objects), fault("invalid"));
    const path = "/a".repeat(200_000);
    assert.throws(() => applyJsonPatch({}, [{ op: "add", path, value: 1 }]), fault("invalid"));
    const legal = (leaf: unknown) => deep(maxJsonDepth - 1, leaf);
    assert.equal(applyJsonPatch(legal(1), diffJson(legal(1), legal(2))) !== undefined, true);
  });

  test("what JSON cannot hold is refused", () => {
    for (const value of [new Date(), 1n, Symbol("s"), Number.NaN, () => 1, new Map()])
      assert.throws(() => diffJson({}, { value }), fault("invalid"));
  });

  test("at most ten thousand operations", () => {
    const operations = Array.from({ length: maxPatchOperations + 1 }, () => testOperation([], 1));
    assert.throws(() => applyJsonPatch(1, operations), fault("tooLarge"));
    assert.equal(applyJsonPatch(1, operations.slice(1)), 1);
  });
});

/** Cases of RFC 6902 appendix A and of the usual conformance lists: document, patch, result or fault. */
const cases: readonly [string, unknown, JsonPatchOperation[], { value: unknown } | { fault: string }][] = [
  ["A.1 add a member", { foo: 1 }, [{ op: "add", path: "/baz", value: 2 }], { value: { foo: 1, baz: 2 } }],
  ["A.2 add an item", { a: [1, 3] }, [{ op: "add", path: "/a/1", value: 2 }], { value: { a: [1, 2, 3] } }],
  ["add at the end", { a: [1] }, [{ op: "add", path: "/a/-", value: 2 }], { value: { a: [1, 2] } }],
  ["add past the end", { a: [1] }, [{ op: "add", path: "/a/2", value: 2 }], { fault: "invalid" }],
  ["add replaces a member", { a: 1 }, [{ op: "add", path: "/a", value: 2 }], { value: { a: 2 } }],
  ["add the whole document", { a: 1 }, [{ op: "add", path: "", value: 2 }], { value: 2 }],
  ["add a null", {}, [{ op: "add", path: "/a", value: null }], { value: { a: null } }],
  ["A.12 parent missing", {}, [{ op: "add", path: "/a/b", value: 1 }], { fault: "invalid" }],
  ["index with leading zero", [1, 2], [{ op: "add", path: "/01", value: 0 }], { fault: "invalid" }],
  ["index in words", [1], [{ op: "add", path: "/1e0", value: 0 }], { fault: "invalid" }],
  ["A.3 remove a member", { a: 1, b: 2 }, [{ op: "remove", path: "/a" }], { value: { b: 2 } }],
  ["A.4 remove an item", [1, 2, 3], [{ op: "remove", path: "/1" }], { value: [1, 3] }],
  ["remove what is not there", {}, [{ op: "remove", path: "/a" }], { fault: "invalid" }],
  ["remove after the last", [1], [{ op: "remove", path: "/-" }], { fault: "invalid" }],
  ["remove a null", { a: null }, [{ op: "remove", path: "/a" }], { value: {} }],
  ["remove the document", {}, [{ op: "remove", path: "" }], { fault: "invalid" }],
  ["A.5 replace", { a: 1 }, [{ op: "replace", path: "/a", value: [] }], { value: { a: [] } }],
  ["replace what is not there", {}, [{ op: "replace", path: "/a", value: 1 }], { fault: "invalid" }],
  ["replace without value", { a: 1 }, [{ op: "replace", path: "/a" }], { fault: "invalid" }],
  ["move is not supported", { a: 1 }, [{ op: "move" as "add", path: "/b", value: 1 }], { fault: "invalid" }],
  [
    "A.8 test",
    { a: { x: 1, y: [1] } },
    [testOperation(["a"], { y: [1], x: 1 })],
    { value: { a: { x: 1, y: [1] } } },
  ],
  ["A.9 test fails", { a: 1 }, [testOperation(["a"], 2)], { fault: "conflict" }],
  ["A.15 text is not a number", { a: 10 }, [testOperation(["a"], "10")], { fault: "conflict" }],
  ["A.14 escapes", { "/": 9, "~1": 10 }, [testOperation(["~1"], 10)], { value: { "/": 9, "~1": 10 } }],
  ["test of nothing", {}, [testOperation(["a"], null)], { fault: "conflict" }],
  ["test of null", { a: null }, [testOperation(["a"], null)], { value: { a: null } }],
  ["pointer without slash", { a: 1 }, [{ op: "remove", path: "a" }], { fault: "invalid" }],
  ["a scalar has no children", { a: "x" }, [{ op: "add", path: "/a/0", value: 1 }], { fault: "invalid" }],
  ["unknown operation", {}, [{ op: "merge" as "add", path: "/a", value: 1 }], { fault: "invalid" }],
];

describe("RFC 6902 semantics", () => {
  for (const [name, document, patch, expected] of cases) {
    test(name, () => {
      if ("fault" in expected) assert.throws(() => applyJsonPatch(document, patch), fault(expected.fault));
      else assert.deepEqual(applyJsonPatch(document, patch), expected.value);
    });
  }

  test("a patch that fails half way changes nothing", () => {
    const document = { a: [1] };
    const patch = [{ op: "add", path: "/a/-", value: 2 } as const, testOperation(["a"], [])];
    assert.throws(() => applyJsonPatch(document, patch), fault("conflict"));
    assert.deepEqual(document, { a: [1] });
  });
});

describe("JSON merge patch", () => {
  test("the table of RFC 7386", () => {
    const table: readonly [unknown, unknown, unknown][] = [
      [{ a: "b" }, { a: "c" }, { a: "c" }],
      [{ a: "b" }, { b: "c" }, { a: "b", b: "c" }],
      [{ a: "b" }, { a: null }, {}],
      [{ a: "b", b: "c" }, { a: null }, { b: "c" }],
      [{ a: ["b"] }, { a: "c" }, { a: "c" }],
      [{ a: "c" }, { a: ["b"] }, { a: ["b"] }],
      [{ a: { b: "c" } }, { a: { b: "d", c: null } }, { a: { b: "d" } }],
      [{ a: [{ b: "c" }] }, { a: [1] }, { a: [1] }],
      [
        ["a", "b"],
        ["c", "d"],
        ["c", "d"],
      ],
      [{ a: "b" }, ["c"], ["c"]],
      [{ a: "foo" }, null, null],
      [{ a: "foo" }, "bar", "bar"],
      [{ e: null }, { a: 1 }, { e: null, a: 1 }],
      [[1, 2], { a: "b", c: null }, { a: "b" }],
      [{}, { a: { bb: { ccc: null } } }, { a: { bb: {} } }],
    ];
    for (const [document, patch, result] of table)
      assert.deepEqual(applyMergePatch(document, patch), result, JSON.stringify(patch));
  });

  test("the created patch leads from one document to the other", () => {
    fc.assert(
      fc.property(jsonWithoutNulls, jsonWithoutNulls, (from, to) => {
        const patch = createMergePatch(from, to);
        const result = patch === undefined ? from : applyMergePatch(from, clone(patch));
        assert.ok(jsonEqual(result, to), JSON.stringify({ patch, result }));
      }),
      runs,
    );
  });

  test("nothing to change is no patch at all", () => {
    fc.assert(
      fc.property(jsonWithoutNulls, (document) => {
        assert.equal(createMergePatch(document, clone(document)), undefined);
      }),
      runs,
    );
    assert.equal(createMergePatch({ a: 1, b: undefined }, { a: 1 }), undefined);
    assert.equal(createMergePatch({ a: 1 }, { a: 1, b: null }), undefined);
  });
});
