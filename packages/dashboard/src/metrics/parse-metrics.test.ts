import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { findLabel, readSamples, sumSamples } from "./parse-metrics.ts";

const text = `# HELP a_total Things.
# TYPE a_total counter
a_total{x="1",y="}"} 2
a_total{x="2"} 3.5 1700000000
b 1e3
c NaN
cocoon_build_info{program="vk-cocoon",version="0.1.0"} 1
`;

test("samples of a name are added up", () => {
  assert.deepEqual(
    [...sumSamples(text, new Set(["a_total", "b", "c"]))],
    [
      ["a_total", 5.5],
      ["b", 1000],
    ],
  );
  assert.equal(findLabel(text, "cocoon_build_info", "version"), "0.1.0");
  assert.equal(findLabel(text, "missing", "version"), "");
});

test("samples keep their labels, whatever stands in them", () => {
  assert.deepEqual(readSamples(text, new Set(["a_total", "b"])), [
    { name: "a_total", labels: { x: "1", y: "}" }, value: 2 },
    { name: "a_total", labels: { x: "2" }, value: 3.5 },
  ]);
  fc.assert(
    fc.property(fc.string(), (any) => {
      for (const { value } of readSamples(`a{${any}} ${any}`, new Set(["a"])))
        assert.ok(Number.isFinite(value));
    }),
  );
});

test("whatever text comes, no sample is made up", () => {
  fc.assert(
    fc.property(fc.string(), (any) => {
      for (const value of sumSamples(any, new Set(["a", "b"])).values()) assert.ok(Number.isFinite(value));
    }),
  );
});
