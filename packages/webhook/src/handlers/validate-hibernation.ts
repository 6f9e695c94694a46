/** `/validate-cocoonhibernation`: one per pod, named like it. */
import { allow, type AdmissionRequest } from "@cocoon/kube/admission";
import { ObjectReader } from "./object-reader.ts";
import { allowed, denied, failed, skipped, type AdmissionResult } from "./admission-result.ts";

export interface HibernationRules {
  /** Those that refer to a pod; throws when that cannot be found out. */
  readonly referringTo: (namespace: string, pod: string) => readonly ExistingHibernation[];
  /** Why the pod is no machine that could sleep; undefined when it is one. */
  readonly findWarning: (namespace: string, pod: string) => string | undefined;
}

interface ExistingHibernation {
  readonly metadata: { readonly name: string; readonly deletionTimestamp?: string };
}

export function validateHibernations({ referringTo, findWarning }: HibernationRules) {
  return (request: AdmissionRequest): AdmissionResult => {
    if (request.operation !== "CREATE") return skipped("operation");
    const reader = new ObjectReader(request.object ?? {});
    const name = reader.object("metadata")?.text("name") || request.name;
    const pod = reader.object("spec")?.object("podRef")?.text("name") ?? "";
    const problem = request.object ? reader.problem : "object: must be an object";
    if (problem !== undefined) return failed("decode", `decode CocoonHibernation: ${problem}`);
    if (name !== pod)
      return denied(
        `cocoon-webhook: metadata.name "${name}" must equal spec.podRef.name "${pod}" (one CocoonHibernation per pod, named after it)`,
      );
    let existing: readonly ExistingHibernation[];
    try {
      existing = referringTo(request.namespace, pod);
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      return failed("list", `cocoon-webhook: cannot verify podRef uniqueness: ${why}`);
    }
    return checkUniqueness(pod, existing) ?? admit(request.namespace, pod, findWarning);
  };
}

function checkUniqueness(pod: string, existing: readonly ExistingHibernation[]): AdmissionResult | undefined {
  const live = existing.find(({ metadata }) => metadata.deletionTimestamp === undefined);
  if (live)
    return denied(
      `cocoon-webhook: pod "${pod}" already has a live CocoonHibernation "${live.metadata.name}"; flip its spec.desire instead of creating a second CR`,
    );
  const [leaving] = existing;
  if (!leaving) return undefined;
  return denied(
    `cocoon-webhook: pod "${pod}"'s CocoonHibernation "${leaving.metadata.name}" is still terminating; retry after its cleanup finishes`,
  );
}

function admit(
  namespace: string,
  pod: string,
  findWarning: HibernationRules["findWarning"],
): AdmissionResult {
  const warning = findWarning(namespace, pod);
  return allowed(warning === undefined ? allow() : allow({ warnings: [warning] }));
}
