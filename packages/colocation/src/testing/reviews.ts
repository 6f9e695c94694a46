/** Admission reviews for each endpoint, and what their answers do to an object. */
import { applyJsonPatch } from "@cocoon/core/json-patch";

export interface Response {
  readonly uid: string;
  readonly allowed: boolean;
  readonly status: { readonly code: number; readonly message?: string; readonly reason?: string };
  readonly patch?: string;
  readonly patchType?: string;
  readonly warnings?: readonly string[];
}

const resources: Readonly<
  Record<
    string,
    {
      readonly group: string;
      readonly version: string;
      readonly resource: string;
      readonly kind: string;
      readonly subResource?: string;
    }
  >
> = {
  pod: { group: "", version: "v1", resource: "pods", kind: "Pod" },
  binding: { group: "", version: "v1", resource: "pods", kind: "Binding", subResource: "binding" },
  status: { group: "", version: "v1", resource: "nodes", kind: "Node", subResource: "status" },
  node: { group: "", version: "v1", resource: "nodes", kind: "Node" },
  elasticquota: {
    group: "scheduling.sigs.k8s.io",
    version: "v1alpha1",
    resource: "elasticquotas",
    kind: "ElasticQuota",
  },
  reservation: {
    group: "scheduling.koordinator.sh",
    version: "v1alpha1",
    resource: "reservations",
    kind: "Reservation",
  },
  configmap: { group: "", version: "v1", resource: "configmaps", kind: "ConfigMap" },
};

/** A review for an endpoint, with the given fields of the request instead. */
export function buildReview(
  path: string,
  request: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  const type = resources[path.split("-").at(-1) ?? ""];
  const { group = "", version = "", resource = "", kind = "", subResource } = type ?? {};
  return {
    apiVersion: "admission.k8s.io/v1",
    kind: "AdmissionReview",
    request: {
      uid: "u1",
      kind: { group, version, kind },
      resource: { group, version, resource },
      ...(subResource ? { subResource } : {}),
      operation: "CREATE",
      userInfo: { username: "alice" },
      ...request,
    },
  };
}

/** The object after the patch of an answer. */
export function patched(object: unknown, response: Response): unknown {
  const text = response.patch ? Buffer.from(response.patch, "base64").toString("utf8") : "[]";
  const operations: unknown = JSON.parse(text);
  return applyJsonPatch(object, operations as never);
}
