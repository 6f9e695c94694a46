import assert from "node:assert/strict";
import { test } from "node:test";
import type { Json } from "../json.ts";
import { podSchema } from "./schemas.ts";
import { strategicMerge } from "./strategic-merge.ts";

const merge = (original: Json, patch: Json): Json =>
  strategicMerge(structuredClone(original), structuredClone(patch), podSchema);

const containers = (...list: Json[]) => ({ spec: { containers: list } });

test("objects merge, null removes, other lists are replaced", () => {
  assert.deepEqual(merge({ spec: { a: 1, b: { c: 1, d: 2 } } }, { spec: { b: { c: null, e: 3 }, f: 4 } }), {
    spec: { a: 1, b: { d: 2, e: 3 }, f: 4 },
  });
  assert.deepEqual(
    merge({ spec: { tolerations: [{ key: "a" }] } }, { spec: { tolerations: [{ key: "b" }] } }),
    {
      spec: { tolerations: [{ key: "b" }] },
    },
  );
  assert.deepEqual(merge({}, { spec: { x: null, y: { z: null, w: 1 } } }), { spec: { y: { w: 1 } } });
});

test("lists with a merge key merge by it; new elements come first, as the API server puts them", () => {
  assert.deepEqual(
    merge(
      containers({ name: "a", image: "1" }, { name: "b", image: "2" }),
      containers({ name: "b", image: "3" }, { name: "c" }),
    ),
    containers({ name: "a", image: "1" }, { name: "b", image: "3" }, { name: "c" }),
  );
  assert.deepEqual(
    merge(containers({ name: "a" }), containers({ name: "z" })),
    containers({ name: "z" }, { name: "a" }),
  );
});

test("directives", () => {
  assert.deepEqual(
    merge(containers({ name: "a" }, { name: "b" }), containers({ name: "a", $patch: "delete" })),
    containers({ name: "b" }),
  );
  assert.deepEqual(
    merge(containers({ name: "a" }, { name: "b" }), containers({ $patch: "replace" }, { name: "c" })),
    containers({ name: "c" }),
  );
  assert.deepEqual(merge({ spec: { a: 1 } }, { spec: { $patch: "replace", b: 2 } }), { spec: { b: 2 } });
  assert.deepEqual(merge({ spec: { a: 1 } }, { spec: { $patch: "delete" } }), { spec: {} });
  assert.deepEqual(merge({ spec: { a: 1, b: 2 } }, { spec: { $retainKeys: ["b", "c"], c: 3 } }), {
    spec: { b: 2, c: 3 },
  });
  assert.deepEqual(
    merge(
      { metadata: { finalizers: ["a", "b"] } },
      { metadata: { "$deleteFromPrimitiveList/finalizers": ["a"] } },
    ),
    { metadata: { finalizers: ["b"] } },
  );
  assert.deepEqual(
    merge(containers({ name: "a" }, { name: "b" }), {
      spec: { "$setElementOrder/containers": [{ name: "b" }, { name: "a" }] },
    }),
    containers({ name: "b" }, { name: "a" }),
  );
  assert.throws(() => merge({ spec: {} }, { spec: { $patch: "perhaps" } }), /unknown value of \$patch/);
  assert.throws(() => merge({ spec: {} }, { spec: { $retainKeys: ["a"], b: 1 } }), /not listed/);
  assert.throws(() => merge(containers({ name: "a" }), containers({ image: "x" })), /has no name/);
});

test("keys are data", () => {
  const patch = JSON.parse('{"metadata":{"labels":{"__proto__":"x"}}}') as Json;
  const merged = merge({ metadata: { labels: {} } }, patch);
  assert.equal(JSON.stringify(merged), '{"metadata":{"labels":{"__proto__":"x"}}}');
  assert.equal(({} as Record<string, unknown>)["x"], undefined);
});
