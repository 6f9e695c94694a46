/** Amounts of resources as plain numbers: millicores, bytes, pieces. Exact enough to compare, cheap to add. */
import type { Container, PodSpec } from "@cocoon/kube";
import { approximateQuantity, tryParseQuantity } from "@cocoon/core/quantity";

export type Amounts = Readonly<Record<string, number>>;
type Quantities = Readonly<Record<string, string>> | undefined;

const known = new Map<string, number>();
const knownAtMost = 4_096;

/** Pods repeat the same few texts. */
function amountOf(text: unknown): number {
  const key = String(text);
  const found = known.get(key);
  if (found !== undefined) return found;
  const quantity = tryParseQuantity(key);
  const amount = quantity ? approximateQuantity(quantity) : 0;
  if (known.size < knownAtMost) known.set(key, amount);
  return amount;
}

export function readAmounts(quantities: Quantities): Amounts {
  return Object.fromEntries(Object.entries(quantities ?? {}).map(([name, text]) => [name, amountOf(text)]));
}

export function addAmounts(left: Amounts, right: Amounts): Amounts {
  return combine(left, right, (one, other) => one + other);
}

export function subtractAmounts(left: Amounts, right: Amounts): Amounts {
  return combine(left, right, (one, other) => one - other);
}

function combine(left: Amounts, right: Amounts, how: (one: number, other: number) => number): Amounts {
  const sum: Record<string, number> = { ...left };
  for (const [name, amount] of Object.entries(right)) sum[name] = how(sum[name] ?? 0, amount);
  return sum;
}

function larger(left: Amounts, right: Amounts): Amounts {
  return combine(left, right, (one, other) => Math.max(one, other));
}

/** As the scheduler counts: containers together, or the largest moment of the start; sidecars count in both. */
export function requestsOf(spec: PodSpec): Amounts {
  let running = sumOf(spec.containers ?? []);
  let starting: Amounts = {};
  let sidecars: Amounts = {};
  for (const container of spec.initContainers ?? []) {
    const requests = requestsOfContainer(container);
    if (container["restartPolicy"] === "Always") {
      sidecars = addAmounts(sidecars, requests);
      starting = larger(starting, sidecars);
    } else starting = larger(starting, addAmounts(sidecars, requests));
  }
  running = addAmounts(running, sidecars);
  return addAmounts(larger(running, starting), readAmounts(spec.overhead));
}

function sumOf(containers: readonly Container[]): Amounts {
  let sum: Amounts = {};
  for (const container of containers) sum = addAmounts(sum, requestsOfContainer(container));
  return sum;
}

/** What is limited and not requested is requested as much: the API server fills it in later than we look. */
function requestsOfContainer({ resources }: Container): Amounts {
  return { ...readAmounts(resources?.limits), ...readAmounts(resources?.requests) };
}

/** The first resource that does not fit; undefined when all do. */
export function shortage(wanted: Amounts, free: (name: string) => number): string | undefined {
  for (const [name, amount] of Object.entries(wanted)) if (amount > 0 && amount > free(name)) return name;
  return undefined;
}
