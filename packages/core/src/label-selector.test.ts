import assert from "node:assert/strict";
import { test } from "node:test";
import {
  formatLabelSelector,
  isLabelValue,
  isQualifiedName,
  matchesLabels,
  parseRequirements,
} from "./label-selector.ts";

const labels = { app: "web", tier: "a", size: "10", empty: "", "cocoonstack.io/pool": "dense" };

type Row = readonly [key: string, operator: string, values: readonly string[], matches: boolean];

const table: readonly Row[] = [
  ["app", "In", ["web"], true],
  ["app", "In", ["api"], false],
  ["app", "In", ["web", "api"], true],
  ["app", "NotIn", ["api"], true],
  ["app", "NotIn", ["api", "db"], true],
  ["app", "NotIn", ["web"], false],
  ["missing", "NotIn", ["x"], true],
  ["missing", "In", ["x"], false],
  ["app", "Exists", [], true],
  ["missing", "Exists", [], false],
  ["missing", "DoesNotExist", [], true],
  ["app", "DoesNotExist", [], false],
  ["empty", "In", [""], true],
  ["app", "In", [""], false],
  ["size", "Gt", ["9"], true],
  ["size", "Gt", ["10"], false],
  ["size", "Lt", ["11"], true],
  ["app", "Gt", ["1"], false],
  ["cocoonstack.io/pool", "In", ["dense"], true],
  ["toString", "Exists", [], false],
];

test("matches as the API server does", () => {
  assert.equal(matchesLabels([], labels), true);
  for (const [key, operator, values, matches] of table) {
    const requirements = parseRequirements({ matchExpressions: [{ key, operator, values }] });
    assert.equal(matchesLabels(requirements, labels), matches, `${key} ${operator} ${values.join()}`);
  }
});

test("the object form is checked and merged", () => {
  const requirements = parseRequirements({
    matchLabels: { app: "web" },
    matchExpressions: [
      { key: "tier", operator: "In", values: ["b", "a"] },
      { key: "old", operator: "DoesNotExist" },
    ],
  });
  assert.equal(formatLabelSelector(requirements), "app=web,tier in (a,b),!old");
  assert.equal(matchesLabels(requirements, labels), true);
  assert.equal(matchesLabels(requirements, undefined), false);
  const wrong = (expression: { key: string; operator: string; values?: readonly string[] }) => () =>
    parseRequirements({ matchExpressions: [expression] });
  assert.throws(wrong({ key: "a", operator: "Near" }), /unknown operator "Near"/);
  assert.throws(wrong({ key: "a", operator: "In" }), /In needs at least one value/);
  assert.throws(wrong({ key: "a", operator: "Exists", values: ["x"] }), /Exists takes no values/);
  assert.throws(wrong({ key: "a b", operator: "Exists" }), /"a b" is not a label key/);
  assert.throws(wrong({ key: "Example.com/x", operator: "Exists" }), /is not a label key/);
  assert.throws(
    wrong({ key: "a", operator: "In", values: ["-x"] }),
    /"-x" is not a value that label "a" can have/,
  );
  assert.throws(wrong({ key: "a", operator: "Gt", values: ["x"] }), /needs one whole number/);
  const many = Array.from({ length: 1_001 }, (_, index) => ({ key: `k${index}`, operator: "Exists" }));
  assert.throws(() => parseRequirements({ matchExpressions: many }), /at most 1000/);
});

test("every operator has its text form", () => {
  const format = (operator: string, values: readonly string[] = []) =>
    formatLabelSelector(parseRequirements({ matchExpressions: [{ key: "a", operator, values }] }));
  assert.deepEqual(
    [format("In", ["b"]), format("In", ["c", "b"]), format("NotIn", ["b"]), format("NotIn", ["b", "c"])],
    ["a=b", "a in (b,c)", "a!=b", "a notin (b,c)"],
  );
  assert.deepEqual(
    [format("Exists"), format("DoesNotExist"), format("Gt", ["1"]), format("Lt", ["2"])],
    ["a", "!a", "a>1", "a<2"],
  );
});

test("keys and values are distinguished from texts that cannot be one", () => {
  for (const key of ["a", "A.b_c-1", "example.com/x", "a".repeat(63)]) assert.ok(isQualifiedName(key), key);
  for (const key of ["", "-a", "a-", "a/b/c", "/a", "a/", "a".repeat(64), `${"a".repeat(254)}/x`])
    assert.ok(!isQualifiedName(key), key);
  for (const value of ["", "a", "A_1.x-y"]) assert.ok(isLabelValue(value), value);
  for (const value of ["-", "a b", "a-", "x".repeat(64)]) assert.ok(!isLabelValue(value), value);
});
