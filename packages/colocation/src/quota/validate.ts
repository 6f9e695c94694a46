/** ElasticQuota CREATE, UPDATE and DELETE. */
import {
  allow,
  type AdmissionHandler,
  type AdmissionRequest,
  type JsonObject,
  type Verdict,
} from "@cocoon/kube/admission";
import { getReviewedObject, getOldObject, handleResource } from "../handlers.ts";
import { isRecord, readObject, readTexts, undecodable } from "../json.ts";
import type { ElasticQuota } from "../kinds.ts";
import { isUnchanged } from "./check.ts";
import { quotaKind } from "./mutate.ts";
import { readQuota } from "./quota-tree.ts";
import type { ChangeAdmission } from "./change-admission.ts";

export function quotaValidator(admission: Pick<ChangeAdmission, "decide">): AdmissionHandler {
  return handleResource(quotaKind, (request, context) => validate(request, admission, context.signal));
}

function validate(
  request: AdmissionRequest,
  admission: Pick<ChangeAdmission, "decide">,
  signal: AbortSignal,
): Verdict | Promise<Verdict> {
  const { dryRun, operation, uid: id } = request;
  const common = { dryRun, id, signal };
  if (operation === "DELETE") {
    const old = readQuota(checked(getOldObject(request, quotaKind), request));
    return admission.decide({ request: { operation: "DELETE", old }, object: undefined, ...common });
  }
  if (operation !== "CREATE" && operation !== "UPDATE") return allow();
  const object = checked(getReviewedObject(request, quotaKind), request);
  const quota = readQuota(object);
  if (operation === "CREATE")
    return admission.decide({ request: { operation: "CREATE", quota }, object, ...common });
  const oldObject = checked(getOldObject(request, quotaKind), request);
  if (isUnchanged(object, oldObject)) return allow();
  const old = readQuota(oldObject);
  return admission.decide({ request: { operation: "UPDATE", quota, old }, object, ...common });
}

/** Types of the fields that are read; the name may only be in the request. */
function checked(object: JsonObject, request: AdmissionRequest): ElasticQuota {
  const metadata = readObject(object, "metadata", "metadata") ?? {};
  readTexts(metadata, "labels", "metadata.labels");
  readTexts(metadata, "annotations", "metadata.annotations");
  for (const field of ["name", "namespace", "uid", "resourceVersion"])
    if (metadata[field] !== undefined && typeof metadata[field] !== "string")
      throw undecodable(`metadata.${field}`, "a string");
  for (const field of ["spec", "status"])
    if (object[field] !== undefined && object[field] !== null && !isRecord(object[field]))
      throw undecodable(field, "an object");
  const { labels, annotations, ...rest } = metadata;
  return {
    ...object,
    metadata: {
      name: request.name,
      namespace: request.namespace,
      ...rest,
      ...(labels ? { labels } : {}),
      ...(annotations ? { annotations } : {}),
    },
    spec: object["spec"] ?? {},
    status: object["status"] ?? {},
  } as ElasticQuota;
}
