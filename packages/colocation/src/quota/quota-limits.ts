/** What a quota limits, and whether a request fits into it. Pure. */
import { canonicalQuantity, compareQuantities, type Quantity } from "@cocoon/core/quantity";
import { gpu, quotaKey } from "../keys.ts";
import type { ElasticQuota } from "../kinds.ts";
import { amount, readResources, type Resources } from "../resources.ts";
import { readResourcesText } from "./quota-tree.ts";

export function fits(quota: ElasticQuota, used: Resources, request: Resources): boolean {
  return exceededKeys(quota, used, request).length === 0;
}

/** Resources that would be over their limit, and that this pod requests. */
function exceededKeys(quota: ElasticQuota, used: Resources, request: Resources): string[] {
  const limits = readLimits(quota);
  return [...considered(quota, request)]
    .filter(([name, wanted]) => {
      const limit = limits.get(name);
      if (!limit || wanted.nanos === 0n) return false;
      return (
        compareQuantities({ nanos: amount(used, name).nanos + wanted.nanos, format: wanted.format }, limit) >
        0
      );
    })
    .map(([name]) => name);
}

function readLimits(quota: ElasticQuota): Resources {
  const admission = readResourcesText(quota.metadata.annotations?.[quotaKey.admission])?.value;
  return admission && admission.size > 0 ? admission : readMax(quota);
}

function readMax({ spec }: ElasticQuota): Resources {
  return readResources(spec, "max", "spec.max");
}

const requestsPrefix = "requests.";

/** The part of a request that the quota speaks of, under the quota's names. */
export function considered(quota: ElasticQuota, request: Resources): Resources {
  const found = new Map<string, Quantity>();
  for (const key of readMax(quota).keys()) {
    const plain = key.startsWith(requestsPrefix) ? key.slice(requestsPrefix.length) : key;
    const quantity = request.get(key) ?? request.get(plain);
    if (quantity) found.set(key, quantity);
  }
  return found;
}

const limitedResources: ReadonlySet<string> = new Set([
  ...["cpu", "memory", "ephemeral-storage"].flatMap((name) => [name, `${requestsPrefix}${name}`]),
  ...["batch-cpu", "batch-memory", "mid-cpu", "mid-memory"].map((name) => `kubernetes.io/${name}`),
  gpu.whole,
  gpu.shared,
  gpu.memoryRatio,
  gpu.nvidia,
]);

/** A quota that limits none of these is not looked at. */
export function isLimited(max: Resources): boolean {
  return [...max.keys()].some((key) => limitedResources.has(key));
}

export function refusalText(quota: ElasticQuota, used: Resources, request: Resources): string {
  const { namespace = "", name = "" } = quota.metadata;
  const keys = exceededKeys(quota, used, request).toSorted();
  const wanted = considered(quota, request);
  const limits = readLimits(quota);
  const list = (amounts: Resources) =>
    keys.map((key) => `${key}=${canonicalQuantity(amount(amounts, key))}`).join(",");
  return `exceeded quota: ${namespace}/${name}, requested: ${list(wanted)}, used: ${list(used)}, limited: ${list(limits)}`;
}
