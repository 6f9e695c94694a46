/** Quota admission of pods: finds the quota, and checks its usage. */
import { rootQuota, systemQuota, defaultQuota } from "../keys.ts";
import { computePodRequest } from "../pod/read-pod.ts";
import type { QuotaAdmission } from "../pod/validate.ts";
import type { Resources } from "../resources.ts";
import type { ClusterView } from "../view.ts";
import { isLimited } from "./quota-limits.ts";
import { QuotaUsage, type UsageStore, type QuotaKey } from "./quota-usage.ts";

export interface PodAdmissionOptions {
  readonly view: Pick<ClusterView, "quotas">;
  readonly store: UsageStore & {
    find(name: string, signal: AbortSignal): Promise<readonly (QuotaKey & { readonly max: Resources })[]>;
  };
  /** How long a pod waits for room that is only held. */
  readonly maxWaitMs: number;
}

const builtIn: ReadonlySet<string> = new Set(["", rootQuota, systemQuota, defaultQuota]);
const maxUsages = 10_000;

export function podAdmission({ view, store, maxWaitMs }: PodAdmissionOptions): QuotaAdmission {
  const usages = new Map<string, QuotaUsage>();
  const openUsage = (key: QuotaKey) => {
    const text = `${key.namespace}/${key.name}`;
    const known = usages.get(text);
    if (known) return known;
    if (usages.size >= maxUsages) usages.clear();
    const usage = new QuotaUsage({ store, key });
    usages.set(text, usage);
    return usage;
  };
  return {
    async admit({ pod, quota, requestUid, dryRun, signal }) {
      if (builtIn.has(quota) || pod.phase === "Succeeded" || pod.phase === "Failed") return undefined;
      const cached = view.quotas().named(quota);
      const found = cached.length > 0 ? cached : await store.find(quota, signal);
      const [only, second] = found;
      if (!only) return `elastic quota ${quota} not found`;
      if (second) return `more than one elastic quota ${quota} found`;
      if (!isLimited(only.max)) return undefined;
      const { namespace, name } = only;
      const waitUntilMs = Date.now() + maxWaitMs;
      const candidate = {
        uid: pod.uid || requestUid,
        request: computePodRequest(pod),
        dryRun,
        signal,
        waitUntilMs,
      };
      return openUsage({ namespace, name }).admit(candidate);
    },
  };
}
