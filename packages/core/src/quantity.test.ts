import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import fc from "fast-check";
import {
  addQuantities,
  canonicalQuantity,
  compareQuantities,
  formatQuantity,
  parseQuantity,
  quantityMillis,
  createQuantity,
  quantityUnits,
  subtractQuantities,
  tryParseQuantity,
  type Quantity,
} from "./quantity.ts";

/** Rounded up to thousandths, as the API server does with the resources of pods. */
function roundAsInPods(quantity: Quantity): Quantity {
  if (quantity.nanos % 1_000_000n === 0n) return quantity;
  return { nanos: quantityMillis(quantity) * 1_000_000n, format: quantity.format };
}

/** Rows of [input, text of k8s.io/apimachinery v0.36.3, its text after the rounding that pods get]. */
const golden = JSON.parse(
  readFileSync(join(import.meta.dirname, "../testdata/quantities.json"), "utf8"),
) as readonly (readonly [string, string, string])[];

test("writes what Kubernetes writes", () => {
  assert.ok(golden.length > 200);
  for (const [input, text, podText] of golden) {
    const quantity = parseQuantity(input);
    assert.equal(formatQuantity(quantity), text, input);
    assert.equal(formatQuantity(roundAsInPods(quantity)), podText, `${input} in a pod`);
  }
});

test("refuses what is not a quantity", () => {
  const wrong = ["", " ", "x", "1x", "Mi", ".", "-", "1 Gi", "1e", "1ei", "1e1.5", "1ki", "0x10", "1e401"];
  for (const text of [...wrong, "9".repeat(300), Number.NaN, Number.POSITIVE_INFINITY])
    assert.equal(tryParseQuantity(text), undefined, String(text));
  assert.throws(() => parseQuantity("lots"), /"lots" is not a quantity; write for example/);
});

test("reads the bare numbers that JSON may hold", () => {
  assert.equal(formatQuantity(parseQuantity(2)), "2");
  assert.equal(formatQuantity(parseQuantity(0.5)), "500m");
  assert.equal(quantityUnits(parseQuantity(1e21)), 10n ** 21n);
});

test("counts whole units and thousandths away from zero", () => {
  assert.equal(quantityUnits(parseQuantity("1500m")), 2n);
  assert.equal(quantityUnits(parseQuantity("-1500m")), -2n);
  assert.equal(quantityUnits(parseQuantity("1Gi")), 2n ** 30n);
  assert.equal(quantityMillis(parseQuantity("1n")), 1n);
  assert.equal(quantityMillis(parseQuantity("2")), 2000n);
});

test("a quantity too large for its suffix keeps its value", () => {
  assert.equal(canonicalQuantity(parseQuantity("1000E")), "1000E");
  assert.equal(canonicalQuantity(parseQuantity("8Ei")), String(2n ** 63n - 1n));
});

test("a zero takes over the other side's format", () => {
  assert.equal(canonicalQuantity(addQuantities(parseQuantity("0"), parseQuantity("2048Mi"))), "2Gi");
  assert.equal(canonicalQuantity(subtractQuantities(createQuantity(0), parseQuantity("2Ki"))), "-2Ki");
});

const suffix = fc.constantFrom(
  "",
  "n",
  "u",
  "m",
  "k",
  "M",
  "G",
  "T",
  "P",
  "Ki",
  "Mi",
  "Gi",
  "Ti",
  "e3",
  "e-3",
);
const quantityText = fc
  .tuple(fc.integer({ min: -1_000_000, max: 1_000_000 }), fc.nat(999), suffix)
  .map(([whole, fraction, unit]) => `${whole}.${fraction}${unit}`);

test("what is written reads back as the same amount", () => {
  fc.assert(
    fc.property(quantityText, (text) => {
      const quantity = parseQuantity(text);
      assert.equal(parseQuantity(formatQuantity(quantity)).nanos, quantity.nanos);
      const canonical = canonicalQuantity(quantity);
      assert.equal(canonicalQuantity(parseQuantity(canonical)), canonical);
    }),
  );
});

test("adding and subtracting undo each other, and comparing agrees with subtracting", () => {
  fc.assert(
    fc.property(quantityText, quantityText, (leftText, rightText) => {
      const [left, right] = [parseQuantity(leftText), parseQuantity(rightText)];
      assert.equal(compareQuantities(subtractQuantities(addQuantities(left, right), right), left), 0);
      assert.equal(compareQuantities(addQuantities(left, right), addQuantities(right, left)), 0);
      const difference = subtractQuantities(left, right);
      assert.equal(compareQuantities(left, right), compareQuantities(difference, createQuantity(0)));
    }),
  );
});
