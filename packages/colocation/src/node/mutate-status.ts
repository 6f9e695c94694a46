/**
 * `/mutate-node-status`: amplifies `status.allocatable` by an annotation. Never refuses: a kubelet that cannot report its status
 * loses its node, so what cannot be read is left as it is, with a warning.
 */
import { canonicalQuantity, compareQuantities, type Quantity } from "@cocoon/core/quantity";
import { diffJson } from "@cocoon/core/json-patch";
import { allow, allowWithPatch, type AdmissionHandler, type Verdict } from "@cocoon/kube/admission";
import { getReviewedObject, getOldObject, handleResource, type HandledResource } from "../handlers.ts";
import { child, copyJson, own, put, readObject, readTexts, type Json, type ReadonlyJson } from "../json.ts";
import { ratioAnnotation, rawAllocatableAnnotation } from "../keys.ts";
import { readResources, resourcesText, type Resources } from "../resources.ts";
import { amplified, amplify, readRatios, readRaw, type Ratios } from "./amplification.ts";

const nodeStatus: HandledResource = { resource: "nodes", subResource: "status", kind: "Node" };

export function nodeStatusMutator(): AdmissionHandler {
  return handleResource(nodeStatus, (request) => {
    if (request.operation !== "UPDATE") return allow();
    return mutate(getReviewedObject(request, nodeStatus), getOldObject(request, nodeStatus));
  });
}

interface Amplified {
  readonly node: ReadonlyJson;
  readonly warnings: readonly string[];
}

function mutate(object: ReadonlyJson, old: ReadonlyJson): Verdict {
  const { node, warnings } = amplifyNode(object, old);
  return allowWithPatch(diffJson(object, node), warnings.length > 0 ? { warnings } : {});
}

function amplifyNode(object: ReadonlyJson, old: ReadonlyJson): Amplified {
  const node = copyJson(object) as Json;
  const untouched = (warning?: string): Amplified => ({
    node: object,
    warnings: warning === undefined ? [] : [`node not amplified: ${warning}`],
  });
  const annotations = readAnnotations(object);
  const ratioText = annotations[ratioAnnotation] ?? "";
  if (ratioText === "") return { node: withoutRaw(node), warnings: [] };
  const allocatable = readAllocatable(object);
  if (!allocatable) return untouched();
  const rawText = annotations[rawAllocatableAnnotation];
  const fresh = rawText === undefined || differ(allocatable, readAllocatable(old));
  const raw = fresh ? pick(allocatable) : readRaw(rawText);
  if (raw === undefined) return untouched();
  if (typeof raw === "string") return untouched(`annotation ${rawAllocatableAnnotation} ${raw}; remove it`);
  const read = readRatios(ratioText);
  if ("problem" in read) return untouched(read.problem);
  if (fresh && raw.size > 0)
    child(child(node, "metadata"), "annotations")[rawAllocatableAnnotation] = resourcesText(raw);
  return { node, warnings: amplifyAllocatable(node, raw, read.ratios) };
}

function amplifyAllocatable(node: Json, raw: Resources, ratios: Ratios): string[] {
  const warnings: string[] = [];
  for (const name of amplified) {
    const ratio = ratios.get(name) ?? 0;
    const base = raw.get(name);
    if (ratio <= 1 || !base) continue;
    const quantity = amplify(base, ratio);
    if (quantity) put(child(child(node, "status"), "allocatable"), name, canonicalQuantity(quantity));
    else warnings.push(`node not amplified: ${name} times ${ratio} is more than a quantity can hold`);
  }
  return warnings;
}

function readAnnotations(node: ReadonlyJson): Readonly<Record<string, string>> {
  return readTexts(readObject(node, "metadata", "metadata") ?? {}, "annotations", "metadata.annotations");
}

function withoutRaw(node: Json): Json {
  const annotations = own(child(node, "metadata"), "annotations");
  if (typeof annotations === "object" && annotations !== null)
    delete (annotations as Json)[rawAllocatableAnnotation];
  return node;
}

function readAllocatable(node: ReadonlyJson): Resources | undefined {
  const status = readObject(node, "status", "status");
  if (!status || own(status, "allocatable") === undefined || own(status, "allocatable") === null)
    return undefined;
  return readResources(status, "allocatable", "status.allocatable");
}

function pick(allocatable: Resources): Resources {
  return new Map(
    amplified.flatMap((name): [string, Quantity][] => {
      const quantity = allocatable.get(name);
      return quantity ? [[name, quantity]] : [];
    }),
  );
}

function differ(now: Resources, before: Resources | undefined): boolean {
  return amplified.some((name) => {
    const [left, right] = [now.get(name), before?.get(name)];
    if (!left || !right) return left !== right;
    return compareQuantities(left, right) !== 0;
  });
}
