/** Pods that tolerate every taint would land on VM hosts, whose kubelet refuses them: they are kept away. */
import { nodeLabel } from "@cocoon/contract";
import type { JsonPatchOperation } from "@cocoon/core/json-patch";
import type { Pod } from "@cocoon/kube";
import { requireTerms } from "./patch-pod.ts";
import type { AdmittedPod } from "./read-pod.ts";

export function toleratesEverything({ spec }: Pod): boolean {
  return (
    spec?.tolerations?.some(
      ({ key, operator, effect }) => !key && operator === "Exists" && (!effect || effect === "NoSchedule"),
    ) ?? false
  );
}

export function keepOffPatch({ spec }: AdmittedPod): JsonPatchOperation[] {
  const requirement = { key: nodeLabel.role, operator: "DoesNotExist" };
  return [
    requireTerms(spec.affinity, (term) => ({
      ...term,
      matchExpressions: [...((term["matchExpressions"] as object[] | undefined) ?? []), requirement],
    })),
  ];
}
