/**
 * The NetworkPolicy behind `spec.network.isolation`: who may open connections to the machines of a set. The cluster's engine
 * enforces it; where there is none, vk-cocoon does for its machines. Pure.
 */
import { apiVersion, label } from "@cocoon/contract";
import { jsonEqual } from "@cocoon/core";
import type { NetworkPolicy } from "@cocoon/kube";
import type { CustomObject } from "../kinds.ts";

export type PolicyPlan =
  | { readonly kind: "none" | "delete" }
  | { readonly kind: "create"; readonly policy: NetworkPolicy }
  | { readonly kind: "patch"; readonly body: object };

/** `policy`: of that name, and of this set. */
export function planPolicy(set: CustomObject, policy: NetworkPolicy | undefined): PolicyPlan {
  if (set.metadata.deletionTimestamp !== undefined) return { kind: "none" };
  const isolation = readIsolation(set);
  if (isolation === "None") return { kind: policy ? "delete" : "none" };
  const spec = buildSpec(set.metadata.name ?? "", isolation);
  if (!policy) return { kind: "create", policy: buildPolicy(set, spec) };
  if (jsonEqual(policy.spec ?? {}, spec)) return { kind: "none" };
  return { kind: "patch", body: { metadata: { uid: policy.metadata.uid }, spec } };
}

/** Read loosely: a set that cannot be read otherwise is isolated all the same. */
function readIsolation({ spec }: CustomObject): "Set" | "Namespace" | "None" {
  const { network } = (spec ?? {}) as { readonly network?: { readonly isolation?: unknown } };
  const isolation = network?.isolation;
  return isolation === "Set" || isolation === "None" ? isolation : "Namespace";
}

function buildSpec(set: string, isolation: "Set" | "Namespace"): NonNullable<NetworkPolicy["spec"]> {
  const machines = { matchLabels: { [label.set]: set } };
  return {
    podSelector: machines,
    policyTypes: ["Ingress"],
    ingress: [{ from: [{ podSelector: isolation === "Set" ? machines : {} }] }],
  };
}

function buildPolicy(set: CustomObject, spec: NonNullable<NetworkPolicy["spec"]>): NetworkPolicy {
  const { name = "", namespace, uid = "" } = set.metadata;
  return {
    apiVersion: "networking.k8s.io/v1",
    kind: "NetworkPolicy",
    metadata: {
      name: formatPolicyName(name),
      ...(namespace === undefined ? {} : { namespace }),
      labels: { [label.set]: name, [label.appName]: name },
      ownerReferences: [{ apiVersion, kind: "CocoonSet", name, uid, controller: true }],
    },
    spec,
  };
}

/** Not the set's own name: users often call their policies so. */
export function formatPolicyName(set: string): string {
  return `${set}-isolation`;
}
