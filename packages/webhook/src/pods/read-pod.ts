/** The pod of an admission request, checked as far as it is read; by hand, because every machine's pod passes here. */
import { Fault } from "@cocoon/core";
import type { Pod, PodSpec } from "@cocoon/kube";
import type { JsonObject } from "@cocoon/kube/admission";

export interface AdmittedPod extends Pod {
  readonly spec: PodSpec;
}

/** Throws `invalid` naming the first field that has the wrong type. */
export function readPod(object: JsonObject | undefined): AdmittedPod {
  if (!object) throw new Fault("invalid", "object is missing");
  const metadata = record(object["metadata"], "metadata");
  for (const field of ["name", "generateName", "namespace"] as const)
    text(metadata[field], `metadata.${field}`);
  texts(metadata["labels"], "metadata.labels");
  texts(metadata["annotations"], "metadata.annotations");
  for (const owner of list(metadata["ownerReferences"], "metadata.ownerReferences"))
    for (const field of ["apiVersion", "kind", "name", "uid"] as const)
      text(owner[field], `metadata.ownerReferences[].${field}`);
  const spec = record(object["spec"], "spec");
  text(spec["nodeName"], "spec.nodeName");
  texts(spec["nodeSelector"], "spec.nodeSelector");
  for (const toleration of list(spec["tolerations"], "spec.tolerations"))
    for (const field of ["key", "operator", "value", "effect"] as const)
      text(toleration[field], `spec.tolerations[].${field}`);
  readContainers(spec);
  if (spec["affinity"] !== undefined && spec["affinity"] !== null) record(spec["affinity"], "spec.affinity");
  list(spec["volumes"], "spec.volumes");
  return { ...object, metadata, spec: withoutNulls(spec) } as unknown as AdmittedPod;
}

function readContainers(spec: JsonObject): void {
  for (const field of ["containers", "initContainers"] as const)
    for (const container of list(spec[field], `spec.${field}`)) {
      text(container["image"], `spec.${field}[].image`);
      const resources = optionalRecord(container["resources"], `spec.${field}[].resources`);
      for (const kind of ["requests", "limits"] as const)
        optionalRecord(resources?.[kind], `resources.${kind}`);
      list(container["ports"], `spec.${field}[].ports`);
    }
  optionalRecord(spec["overhead"], "spec.overhead");
}

/** Go sends null where there is nothing. */
function withoutNulls(spec: JsonObject): JsonObject {
  const filled = Object.entries(spec).filter(([, value]) => value !== null);
  return { containers: [], ...Object.fromEntries(filled) };
}

function optionalRecord(value: unknown, field: string): JsonObject | undefined {
  return value === undefined || value === null ? undefined : record(value, field);
}

function record(value: unknown, field: string): JsonObject {
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw new Fault("invalid", `${field} must be an object`);
  return value as JsonObject;
}

function text(value: unknown, field: string): void {
  if (value !== undefined && value !== null && typeof value !== "string")
    throw new Fault("invalid", `${field} must be a string`);
}

function texts(value: unknown, field: string): void {
  if (value === undefined || value === null) return;
  for (const [key, each] of Object.entries(record(value, field)))
    if (typeof each !== "string")
      throw new Fault("invalid", `${field}["${key.slice(0, 64)}"] must be a string`);
}

function list(value: unknown, field: string): readonly JsonObject[] {
  if (value === undefined || value === null) return [];
  if (!Array.isArray(value)) throw new Fault("invalid", `${field} must be a list`);
  return value.map((item) => record(item, `${field}[]`));
}
