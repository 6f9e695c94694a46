/** Amounts of resources as the scheduler counts them: CPU in millicores, the rest in whole units, rounded up. */
import { quantityMillis, quantityUnits, tryParseQuantity } from "@cocoon/core/quantity";

export type Amounts = Readonly<Record<string, number>>;
type Quantities = Readonly<Record<string, string | number>> | undefined | null;

/** Pods repeat the same few texts. */
const parsed = new Map<string, number>();
const maxParsed = 4_096;

/** A text that is no quantity counts as 0: the API server refuses such objects. */
function readAmount(resource: string, text: string | number): number {
  const key = resource === "cpu" ? `cpu ${text}` : String(text);
  const known = parsed.get(key);
  if (known !== undefined) return known;
  const quantity = tryParseQuantity(text);
  const amount = quantity
    ? Number(resource === "cpu" ? quantityMillis(quantity) : quantityUnits(quantity))
    : 0;
  if (parsed.size < maxParsed) parsed.set(key, amount);
  return amount;
}

export function readAmounts(quantities: Quantities): Amounts {
  return Object.fromEntries(
    Object.entries(quantities ?? {}).map(([resource, text]) => [resource, readAmount(resource, text)]),
  );
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

interface RequestingContainer {
  readonly resources?: { readonly requests?: Quantities; readonly limits?: Quantities };
  readonly ports?: readonly object[];
  readonly restartPolicy?: unknown;
}

/** The part of a pod's spec that says what it requests. */
export interface RequestingSpec {
  readonly containers?: readonly RequestingContainer[];
  readonly initContainers?: readonly RequestingContainer[];
  readonly overhead?: unknown;
  readonly resources?: unknown;
}

/** All containers together, or the largest moment of the start; sidecars count in both. Pod requests replace, overhead adds. */
export function computeRequests(spec: RequestingSpec): Amounts {
  let running = sumContainers(spec.containers ?? []);
  let starting: Amounts = {};
  let sidecars: Amounts = {};
  for (const container of spec.initContainers ?? []) {
    const requests = readContainerRequests(container);
    if (container.restartPolicy === "Always") {
      sidecars = addAmounts(sidecars, requests);
      starting = larger(starting, sidecars);
    } else starting = larger(starting, addAmounts(sidecars, requests));
  }
  running = addAmounts(running, sidecars);
  const total = { ...larger(running, starting), ...readPodRequests(spec) };
  return addAmounts(total, readAmounts(spec.overhead as Quantities));
}

function sumContainers(containers: readonly RequestingContainer[]): Amounts {
  let sum: Amounts = {};
  for (const container of containers) sum = addAmounts(sum, readContainerRequests(container));
  return sum;
}

/** A resource with a limit and no request is requested as much as its limit. */
function readContainerRequests({ resources }: RequestingContainer): Amounts {
  return { ...readAmounts(resources?.limits), ...readAmounts(resources?.requests) };
}

/** `spec.resources`: only these resources can be requested by the pod as a whole. */
function readPodRequests(spec: RequestingSpec): Amounts {
  const resources = spec.resources as RequestingContainer["resources"] | null;
  const requests = readAmounts(resources?.requests);
  return Object.fromEntries(
    Object.entries(requests).filter(
      ([resource]) => resource === "cpu" || resource === "memory" || resource.startsWith("hugepages-"),
    ),
  );
}
