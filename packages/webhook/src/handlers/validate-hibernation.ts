/** `/validate-cocoonhibernation`: one per pod, named like it. */
import * as z from "zod";
import type { AdmissionRequest } from "@cocoon/kube/admission";
import { allow } from "@cocoon/kube/admission";
import { decodeWith } from "./decode.ts";
import { allowed, denied, failed, skipped, type Judgement } from "./judgement.ts";

export interface HibernationRules {
  /** Those that refer to a pod; throws when nobody can say. */
  readonly referringTo: (namespace: string, pod: string) => readonly ExistingHibernation[];
  /** Why the pod is no machine that could sleep; undefined when it is one. */
  readonly doubtAbout: (namespace: string, pod: string) => string | undefined;
}

interface ExistingHibernation {
  readonly metadata: { readonly name: string; readonly deletionTimestamp?: string };
}

const schema = z.object({
  metadata: z.object({ name: z.string().nullish() }).nullish(),
  spec: z.object({ podRef: z.object({ name: z.string().nullish() }).nullish() }).nullish(),
});

export function validateHibernations({ referringTo, doubtAbout }: HibernationRules) {
  return (request: AdmissionRequest): Judgement => {
    if (request.operation !== "CREATE") return skipped("operation");
    const decoded = decodeWith(schema, request.object);
    if (decoded.kind === "fault") return failed("decode", `decode CocoonHibernation: ${decoded.message}`);
    const name = decoded.value.metadata?.name || request.name;
    const pod = decoded.value.spec?.podRef?.name ?? "";
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
    return judgeUniqueness(pod, existing) ?? admit(request.namespace, pod, doubtAbout);
  };
}

function judgeUniqueness(pod: string, existing: readonly ExistingHibernation[]): Judgement | undefined {
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

function admit(namespace: string, pod: string, doubtAbout: HibernationRules["doubtAbout"]): Judgement {
  const doubt = doubtAbout(namespace, pod);
  return allowed(doubt === undefined ? allow() : allow({ warnings: [doubt] }));
}
