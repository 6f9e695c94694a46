import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import {
  formatLabelSelector,
  isLabelValue,
  isQualifiedName,
  matchesLabels,
  parseLabelSelector,
  requirementsOf,
  type LabelRequirement,
} from "./label-selector.ts";

const labels = { app: "web", tier: "a", size: "10", empty: "", "cocoonstack.io/pool": "dense" };

const table: readonly (readonly [string, boolean])[] = [
  ["", true],
  ["app=web", true],
  ["app==web", true],
  ["app = web", true],
  ["app=api", false],
  ["app!=api", true],
  ["app!=web", false],
  ["missing!=x", true],
  ["missing=x", false],
  ["app in (web, api)", true],
  ["app in (api)", false],
  ["app notin (api,db)", true],
  ["app notin (web)", false],
  ["missing notin (web)", true],
  ["app", true],
  ["missing", false],
  ["!missing", true],
  ["! missing", true],
  ["!app", false],
  ["empty=", true],
  ["empty in ()", true],
  ["app=", false],
  ["size>9", true],
  ["size>10", false],
  ["size<11", true],
  ["app>1", false],
  ["cocoonstack.io/pool=dense", true],
  ["app=web,tier in (a,b),!missing", true],
  ["app=web,tier in (b,c)", false],
  ["toString", false],
];

test("matches as the API server does", () => {
  for (const [text, matches] of table)
    assert.equal(matchesLabels(parseLabelSelector(text), labels), matches, text);
});

test("a selector that cannot be read says what is wrong", () => {
  const cases: readonly (readonly [string, RegExp])[] = [
    ["a b", /cannot read "a b"/],
    ["a=b c", /cannot read/],
    ["=x", /cannot read/],
    ["a in b", /cannot read/],
    ["a,,b", /cannot read ""/],
    ["example.com/x=1,Example.com/x=1", /"Example.com\/x" is not a label key/],
    ["a=-x", /"-x" is not a value that label "a" can have/],
    [`a=${"x".repeat(64)}`, /is not a value/],
    ["a>x", /needs one whole number/],
    [Array.from({ length: 1_001 }, (_, index) => `k${index}`).join(","), /at most 1000/],
  ];
  for (const [text, message] of cases)
    assert.throws(() => parseLabelSelector(text), { code: "invalid", message }, text);
});

test("the object form is checked and merged", () => {
  const requirements = requirementsOf({
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
    requirementsOf({ matchExpressions: [expression] });
  assert.throws(wrong({ key: "a", operator: "Near" }), /unknown operator "Near"/);
  assert.throws(wrong({ key: "a", operator: "In" }), /In needs at least one value/);
  assert.throws(wrong({ key: "a", operator: "Exists", values: ["x"] }), /Exists takes no values/);
  assert.throws(wrong({ key: "a b", operator: "Exists" }), /"a b" is not a label key/);
});

test("keys and values are told from texts that cannot be one", () => {
  for (const key of ["a", "A.b_c-1", "example.com/x", "a".repeat(63)]) assert.ok(isQualifiedName(key), key);
  for (const key of ["", "-a", "a-", "a/b/c", "/a", "a/", "a".repeat(64), `${"a".repeat(254)}/x`])
    assert.ok(!isQualifiedName(key), key);
  for (const value of ["", "a", "A_1.x-y"]) assert.ok(isLabelValue(value), value);
  for (const value of ["-", "a b", "a-", "x".repeat(64)]) assert.ok(!isLabelValue(value), value);
});

const word = fc.stringMatching(/^[a-z]([a-z0-9]{0,4}[a-z0-9])?$/);
const requirement: fc.Arbitrary<LabelRequirement> = fc.oneof(
  fc
    .tuple(
      word,
      fc.constantFrom("In" as const, "NotIn" as const),
      fc.uniqueArray(word, { minLength: 1, maxLength: 3 }),
    )
    .map(([key, operator, values]) => ({ key, operator, values: values.sort() })),
  fc
    .tuple(word, fc.constantFrom("Exists" as const, "DoesNotExist" as const))
    .map(([key, operator]) => ({ key, operator, values: [] })),
  fc
    .tuple(word, fc.constantFrom("Gt" as const, "Lt" as const), fc.nat(100))
    .map(([key, operator, bound]) => ({ key, operator, values: [String(bound)] })),
);

test("what is written reads back as the same requirements", () => {
  fc.assert(
    fc.property(fc.array(requirement, { maxLength: 5 }), (requirements) => {
      assert.deepEqual(parseLabelSelector(formatLabelSelector(requirements)), requirements);
    }),
  );
});
