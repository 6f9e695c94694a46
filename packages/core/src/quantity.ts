/**
 * Kubernetes quantities ("500m", "1536Mi", "12e6"): exact arithmetic in whole nano-units, and the text that the API server would
 * write. Like the API server, reading rounds away from zero and caps binary values at 2^63-1.
 */
import { Fault } from "./fault.ts";

/** How a quantity is written: "1500m" (decimal), "1536Mi" (binary) or "15e2" (exponent). */
export type QuantityFormat = "decimal" | "binary" | "exponent";

export interface Quantity {
  readonly nanos: bigint;
  readonly format: QuantityFormat;
  /** The user's own text, where the API server keeps it instead of rewriting it. */
  readonly text?: string;
}

const nano = 1_000_000_000n;
const maxBinary = (2n ** 63n - 1n) * nano;
const maxTextLength = 256;
/** 10^±400 is far outside of anything countable; without a limit "1e999999999" would fill the memory. */
const maxExponent = 400;

const grammar = /^([+-]?)(?:(\d+)(?:\.(\d*))?|\.(\d+))(|[KMGTPE]i|[numkMGTPE]|[eE]([+-]?\d{1,9}))$/;

const decimalExponents: Readonly<Record<string, number>> = {
  n: -9,
  u: -6,
  m: -3,
  "": 0,
  k: 3,
  M: 6,
  G: 9,
  T: 12,
  P: 15,
  E: 18,
};
const decimalSuffixes = new Map(Object.entries(decimalExponents).map(([suffix, power]) => [power, suffix]));
const binarySuffixes = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

interface Parts {
  readonly text: string;
  readonly negative: boolean;
  readonly whole: string;
  readonly fraction: string;
  readonly format: QuantityFormat;
  readonly exponent: number;
}

/** A quantity from its text, or from the bare number that JSON may hold; undefined when it is not one. */
export function tryParseQuantity(input: string | number): Quantity | undefined {
  const text = typeof input === "number" ? String(input) : input.trim();
  const parts = split(text);
  if (parts === undefined || Math.abs(parts.exponent) > maxExponent) return undefined;
  const magnitude = computeMagnitude(parts);
  const capped = parts.format === "binary" && magnitude > maxBinary ? maxBinary : magnitude;
  const nanos = parts.negative ? -capped : capped;
  const format = parts.format === "binary" && capped > 0n && capped < nano ? "decimal" : parts.format;
  return keepsText(parts) ? { nanos, format, text } : { nanos, format };
}

export function parseQuantity(input: string | number): Quantity {
  const quantity = tryParseQuantity(input);
  if (quantity === undefined)
    throw new Fault("invalid", `"${input}" is not a quantity; write for example 500m, 2, 512Mi or 20Gi`);
  return quantity;
}

function split(text: string): Parts | undefined {
  if (text.length > maxTextLength) return undefined;
  const match = grammar.exec(text);
  if (match === null) return undefined;
  const [, sign = "", digits = "", fraction = "", onlyFraction = "", suffix = "", power] = match;
  const common = {
    text,
    negative: sign === "-",
    whole: digits.replace(/^0+/, "") || "0",
    fraction: fraction || onlyFraction,
  };
  if (power !== undefined) return { ...common, format: "exponent", exponent: Number(power) };
  const binary = suffix === "" ? 0 : binarySuffixes.indexOf(suffix);
  if (binary > 0) return { ...common, format: "binary", exponent: binary * 10 };
  return { ...common, format: "decimal", exponent: decimalExponents[suffix] ?? 0 };
}

function computeMagnitude({ whole, fraction, format, exponent }: Parts): bigint {
  const digits = BigInt(whole + fraction);
  const scale = 9 - fraction.length + (format === "binary" ? 0 : exponent);
  const factor = format === "binary" ? 2n ** BigInt(exponent) : 1n;
  return scale >= 0
    ? digits * factor * 10n ** BigInt(scale)
    : divideRoundingUp(digits * factor, 10n ** BigInt(-scale));
}

/** Whether the API server keeps this text: the number fits its fast path and looks canonical, such as "1.500" and "+5". */
function keepsText({ whole, fraction, format, exponent }: Parts): boolean {
  const digits = whole + fraction;
  if (format === "binary") {
    const room = 15 - whole.length - Math.trunc((exponent * 3) / 10) - 1;
    return fraction === "" && room >= 0 && (BigInt(whole) & 7n) !== 0n;
  }
  const scale = exponent - fraction.length;
  const fast = digits.length <= 18 && scale >= -9;
  return fast && scale % 3 === 0 && !digits.endsWith("000") && !digits.startsWith("0");
}

/** The text the API server would write: the user's own where it keeps that, else the canonical form. */
export function formatQuantity(quantity: Quantity): string {
  return quantity.text ?? canonicalQuantity(quantity);
}

/** The shortest form without a fraction: 1.5 -> "1500m", 1024Mi -> "1Gi". */
export function canonicalQuantity({ nanos, format }: Quantity): string {
  if (nanos === 0n) return "0";
  const small = nanos > -1024n * nano && nanos < 1024n * nano;
  if (format === "binary" && !small && nanos % nano === 0n) return binaryText(nanos / nano);
  return decimalText(nanos, format === "exponent" ? "exponent" : "decimal");
}

function binaryText(value: bigint): string {
  let number = value;
  let index = 0;
  while (number % 1024n === 0n && index < binarySuffixes.length - 1) {
    number /= 1024n;
    index += 1;
  }
  return `${number}${binarySuffixes[index] ?? ""}`;
}

function decimalText(nanos: bigint, format: "decimal" | "exponent"): string {
  let number = nanos;
  let power = -9;
  // The suffix for powers of ten ends at E; beyond it the number grows instead of losing its suffix.
  const maxPower = format === "exponent" ? Number.POSITIVE_INFINITY : 18;
  while (number % 1000n === 0n && power < maxPower) {
    number /= 1000n;
    power += 3;
  }
  if (format === "decimal") return `${number}${decimalSuffixes.get(power) ?? ""}`;
  return power === 0 ? String(number) : `${number}e${power}`;
}

export function createQuantity(units: bigint | number, format: QuantityFormat = "decimal"): Quantity {
  return { nanos: BigInt(units) * nano, format };
}

/** As in the API server, a zero on the left takes over the format of the right side. */
export function addQuantities(left: Quantity, right: Quantity): Quantity {
  return { nanos: left.nanos + right.nanos, format: left.nanos === 0n ? right.format : left.format };
}

export function subtractQuantities(left: Quantity, right: Quantity): Quantity {
  return { nanos: left.nanos - right.nanos, format: left.nanos === 0n ? right.format : left.format };
}

export function compareQuantities(left: Quantity, right: Quantity): -1 | 0 | 1 {
  if (left.nanos === right.nanos) return 0;
  return left.nanos < right.nanos ? -1 : 1;
}

/** Whole units (cores, bytes), rounded away from zero. */
export function quantityUnits(quantity: Quantity): bigint {
  return divideRoundingUp(quantity.nanos, nano);
}

/** Thousandths (millicores), rounded away from zero. */
export function quantityMillis(quantity: Quantity): bigint {
  return divideRoundingUp(quantity.nanos, 1_000_000n);
}

function divideRoundingUp(value: bigint, divisor: bigint): bigint {
  const quotient = value / divisor;
  if (value % divisor === 0n) return quotient;
  return value < 0n ? quotient - 1n : quotient + 1n;
}
