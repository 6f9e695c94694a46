/** Quota admission of pods: finds the quota, and asks its ledger. */
import { rootQuota, systemQuota, defaultQuota } from "../keys.ts";
import { podRequest } from "../pod/pod-request.ts";
import type { QuotaAdmission } from "../pod/validate.ts";
import type { Resources } from "../resources.ts";
import type { ClusterView } from "../view.ts";
import { isJudged, PodLedger, type PodLedgerStore, type QuotaKey } from "./pod-ledger.ts";

export interface PodAdmissionOptions {
  readonly view: Pick<ClusterView, "quotas">;
  readonly store: PodLedgerStore & {
    /** Quotas of that name in all namespaces, from the API server itself. */
    find(name: string, signal: AbortSignal): Promise<readonly (QuotaKey & { readonly max: Resources })[]>;
  };
  /** How long a pod waits for room that is only held. */
  readonly patienceMs: number;
}

const builtIn: ReadonlySet<string> = new Set(["", rootQuota, systemQuota, defaultQuota]);
const maxLedgers = 10_000;

export function podAdmission({ view, store, patienceMs }: PodAdmissionOptions): QuotaAdmission {
  const ledgers = new Map<string, PodLedger>();
  const ledgerOf = (key: QuotaKey) => {
    const text = `${key.namespace}/${key.name}`;
    const known = ledgers.get(text);
    if (known) return known;
    if (ledgers.size >= maxLedgers) ledgers.clear();
    const ledger = new PodLedger({ store, key });
    ledgers.set(text, ledger);
    return ledger;
  };
  return {
    async admit({ pod, quota, requestUid, dryRun, signal }) {
      if (builtIn.has(quota) || pod.phase === "Succeeded" || pod.phase === "Failed") return undefined;
      const cached = view.quotas().named(quota);
      const found = cached.length > 0 ? cached : await store.find(quota, signal);
      const [only, second] = found;
      if (!only) return `elastic quota ${quota} not found`;
      if (second) return `more than one elastic quota ${quota} found`;
      if (!isJudged(only.max)) return undefined;
      const { namespace, name } = only;
      const patienceEndsMs = Date.now() + patienceMs;
      const asking = { uid: pod.uid || requestUid, request: podRequest(pod), dryRun, signal, patienceEndsMs };
      return ledgerOf({ namespace, name }).admit(asking);
    },
  };
}
