/** ElasticQuota CREATE: parent, tree and shared weight are filled in. */
import { Fault } from "@cocoon/core";
import { diffJson } from "@cocoon/core/json-patch";
import { allow, allowWithPatch, type AdmissionHandler } from "@cocoon/kube/admission";
import { getReviewedObject, handleResource, type HandledResource } from "../handlers.ts";
import {
  child,
  copyJson,
  own,
  readObject,
  readText,
  readTexts,
  type Json,
  type ReadonlyJson,
} from "../json.ts";
import { quotaKey, rootQuota } from "../keys.ts";
import { readResources, resourcesText, type Resources } from "../resources.ts";
import type { ClusterView } from "../view.ts";
import { readResourcesText } from "./quota-tree.ts";

export interface QuotaMutatorOptions {
  readonly view: Pick<ClusterView, "quota">;
  /** Called with each default weight, for the gauge. */
  readonly weighed?: (quota: string, resource: string, value: number) => void;
}

export const quotaKind: HandledResource = { resource: "elasticquotas", kind: "ElasticQuota" };

export function quotaMutator(options: QuotaMutatorOptions): AdmissionHandler {
  return handleResource(quotaKind, async (request) => {
    if (request.operation !== "CREATE") return allow();
    const object = getReviewedObject(request, quotaKind);
    const metadata = readObject(object, "metadata", "metadata") ?? {};
    const name = readText(metadata, "name", "metadata.name") || request.name;
    if (name === rootQuota) return allow();
    const quota = copyJson(object) as Json;
    await fillLabels(quota, { name, labels: readTexts(metadata, "labels", "metadata.labels") }, options);
    fillSharedWeight(quota, name, options);
    return allowWithPatch(diffJson(object, quota));
  });
}

async function fillLabels(
  quota: Json,
  { name, labels }: { readonly name: string; readonly labels: Readonly<Record<string, string>> },
  { view }: QuotaMutatorOptions,
): Promise<void> {
  const parent = labels[quotaKey.parent] || rootQuota;
  const wanted = child(child(quota, "metadata"), "labels");
  wanted[quotaKey.parent] = parent;
  if (labels[quotaKey.treeId] || parent === rootQuota) return;
  const found = await view.quota(parent);
  if (!found) throw new Fault("badRequest", `fill quota ${name} failed, parent not exist`);
  if (found.treeId !== "") wanted[quotaKey.treeId] = found.treeId;
}

function fillSharedWeight(quota: Json, name: string, options: QuotaMutatorOptions): void {
  const spec = readObject(quota, "spec", "spec");
  const max = readResources(spec, "max", "spec.max");
  const metadata = child(quota, "metadata");
  const current = readTexts(metadata, "annotations", "metadata.annotations")[quotaKey.sharedWeight] ?? "";
  if (current === "") {
    const text = hasMax(spec) ? resourcesText(max) : "null";
    child(metadata, "annotations")[quotaKey.sharedWeight] = text;
    for (const [resource, value] of max)
      options.weighed?.(name, resource, Number(value.nanos / 1_000_000_000n));
    return;
  }
  const read = readResourcesText(current);
  if (!read?.value)
    throw new Fault(
      "badRequest",
      `fillDefaultQuotaInfo unmarshal sharedWeight failed:${read?.problem ?? ""}`,
    );
  const aligned = align(read.value, max);
  if (aligned) child(metadata, "annotations")[quotaKey.sharedWeight] = resourcesText(aligned);
}

function hasMax(spec: ReadonlyJson | undefined): boolean {
  return spec !== undefined && own(spec, "max") !== undefined && own(spec, "max") !== null;
}

/** The weights of max's keys, missing ones with max's value; undefined when the keys are the same already. */
function align(weight: Resources, max: Resources): Resources | undefined {
  const isSame = weight.size === max.size && [...max.keys()].every((key) => weight.has(key));
  return isSame ? undefined : new Map([...max].map(([key, value]) => [key, weight.get(key) ?? value]));
}
