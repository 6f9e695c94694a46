/** The pod of an admission request, checked as far as it is read; by hand, because every machine's pod passes here. */
import { Fault } from "@cocoon/core";
import type { Pod, PodSpec } from "@cocoon/kube";
import type { JsonObject } from "@cocoon/kube/admission";
import { ObjectReader } from "../handlers/object-reader.ts";

export interface AdmittedPod extends Pod {
  readonly spec: PodSpec;
}

/** Throws `invalid` naming the fields that have the wrong type. */
export function readPod(object: JsonObject | undefined): AdmittedPod {
  if (!object) throw new Fault("invalid", "object is missing");
  const reader = new ObjectReader(object);
  checkMetadata(reader.required("metadata"));
  checkSpec(reader.required("spec"));
  if (reader.problem !== undefined) throw new Fault("invalid", reader.problem);
  const pod: object = {
    ...object,
    metadata: withoutNulls(object["metadata"] as JsonObject),
    spec: { containers: [], ...withoutNulls(object["spec"] as JsonObject) },
  };
  return pod as AdmittedPod;
}

function checkMetadata(metadata: ObjectReader): void {
  metadata.texts(["name", "generateName", "namespace"]);
  for (const field of ["labels", "annotations"]) checkMap(metadata.object(field));
  for (const owner of metadata.objects("ownerReferences") ?? [])
    owner.texts(["apiVersion", "kind", "name", "uid"]);
}

function checkSpec(spec: ObjectReader): void {
  spec.texts(["nodeName"]);
  checkMap(spec.object("nodeSelector"));
  for (const toleration of spec.objects("tolerations") ?? [])
    toleration.texts(["key", "operator", "value", "effect"]);
  for (const field of ["containers", "initContainers"])
    for (const container of spec.objects(field) ?? []) {
      container.texts(["image"]);
      const resources = container.object("resources");
      for (const kind of ["requests", "limits"]) resources?.object(kind);
      container.objects("ports");
    }
  for (const field of ["overhead", "affinity"]) spec.object(field);
  spec.objects("volumes");
}

function checkMap(map: ObjectReader | undefined): void {
  map?.texts(map.fields(), { nullable: false });
}

/** Go sends null where there is nothing. */
function withoutNulls(object: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== null));
}
