/** The patch of a pod that got a reservation: the machine's name and spec, its node, and what keeps it there. */
import { annotation, completeVmSpec, legacyAnnotation, readVmSpec } from "@cocoon/contract";
import type { JsonPatchOperation } from "@cocoon/core/json-patch";
import type { Toleration } from "@cocoon/kube";
import { formatPointer } from "@cocoon/core/json-patch";
import { runtimeAnnotations } from "../identity/protected-annotations.ts";
import { getRequiredNodeTerms } from "@cocoon/kube/scheduling";
import { patienceKeys } from "../nodes/pod-shape.ts";
import type { Granted } from "../store/claim-request.ts";
import { deletionCost, writeNote } from "./admission-note.ts";
import { nodeRequirement, type FieldRequirement } from "./node-requirement.ts";
import type { AdmittedPod } from "./read-pod.ts";

/** What the API server adds to pods that say nothing: it would evict a machine after five minutes. */
const defaultPatienceSeconds = 300;

/** `shape`: digest of what the pod requests of its node. */
export function patchPod(pod: AdmittedPod, granted: Granted, shape: string): JsonPatchOperation[] {
  return [...annotationPatch(pod, granted, shape), ...pinPatch(pod, granted), ...tolerationPatch(pod)];
}

/** Pods of a Sandbox have no reservation: no other machine ever has the name, and any node may wake it. */
export function patchSandboxPod(pod: AdmittedPod, vmName: string): JsonPatchOperation[] {
  const policy = pod.metadata.annotations?.[annotation.snapshotPolicy];
  const wanted = {
    [annotation.vmName]: vmName,
    // What outlives a Sandbox is nothing, unless its template says otherwise.
    ...(policy === undefined ? { [annotation.snapshotPolicy]: "never" } : {}),
    ...missingSpec(pod),
  };
  return [...addAnnotations(pod, wanted), ...tolerationPatch(pod)];
}

function annotationPatch(pod: AdmittedPod, granted: Granted, shape: string): JsonPatchOperation[] {
  const { entry, placement, from } = granted;
  const present = pod.metadata.annotations;
  const missing = missingSpec(pod);
  // Of replicas that are equal otherwise the one with the lowest cost goes first: the highest slot.
  if (entry.deployment !== "" && present?.[deletionCost] === undefined)
    missing[deletionCost] = entry.slot === 0 ? "0" : String(-entry.slot);
  const wanted: Record<string, string> = {
    [annotation.vmName]: entry.vmName,
    ...(present?.[legacyAnnotation.vmName] === undefined ? {} : { [legacyAnnotation.vmName]: entry.vmName }),
    [annotation.reservation]: entry.claim,
    ...missing,
    [annotation.admission]: writeNote({ pin: placement.pin, from, shape, added: missing }),
  };
  return addAnnotations(pod, wanted);
}

function addAnnotations(pod: AdmittedPod, wanted: Readonly<Record<string, string>>): JsonPatchOperation[] {
  const operations = Object.entries(wanted).map(([key, value]): JsonPatchOperation => ({
    op: "add",
    path: formatPointer(["metadata", "annotations", key]),
    value,
  }));
  if (pod.metadata.annotations) return [...operations, ...copiedRuntimePatch(pod)];
  return [{ op: "add", path: "/metadata/annotations", value: {} }, ...operations];
}

/** A new pod has no running machine yet: what it carries was copied from another pod. A static machine runs already. */
function copiedRuntimePatch({ metadata: { annotations } }: AdmittedPod): JsonPatchOperation[] {
  if (readVmSpec(annotations).mode === "static") return [];
  return runtimeAnnotations
    .filter((key) => annotations?.[key] !== undefined)
    .map((key) => ({ op: "remove", path: formatPointer(["metadata", "annotations", key]) }));
}

function missingSpec({
  metadata: { annotations },
  spec: { containers },
}: AdmittedPod): Record<string, string> {
  return completeVmSpec(annotations, containers[0]?.image ?? "");
}

function pinPatch(pod: AdmittedPod, { placement }: Granted): JsonPatchOperation[] {
  const { node, pin } = placement;
  if (pin === "nodeName") return [{ op: "add", path: "/spec/nodeName", value: node }];
  return pin === "affinity" ? [requireNode(pod, nodeRequirement(node))] : [];
}

/** Every alternative of the pod's own affinity gets the requirement: alternatives are or-ed. */
function requireNode({ spec: { affinity } }: AdmittedPod, requirement: FieldRequirement): JsonPatchOperation {
  return requireTerms(affinity, (term) => ({
    ...term,
    matchFields: [...((term["matchFields"] as FieldRequirement[] | undefined) ?? []), requirement],
  }));
}

type Term = Readonly<Record<string, unknown>>;

/** The operation that changes every required node selector term, or makes the first. */
export function requireTerms(
  affinity: AdmittedPod["spec"]["affinity"],
  change: (term: Term) => Term,
): JsonPatchOperation {
  const terms = (getRequiredNodeTerms(affinity) ?? [{}]).map((term) => change({ ...term }));
  const nodeAffinity = affinity?.["nodeAffinity"];
  const value = {
    ...affinity,
    nodeAffinity: {
      ...(typeof nodeAffinity === "object" ? nodeAffinity : {}),
      requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: terms },
    },
  };
  return { op: "add", path: "/spec/affinity", value };
}

/** A machine waits for its node however long that is away: no other node has it. */
function tolerationPatch({ spec }: AdmittedPod): JsonPatchOperation[] {
  const present = spec.tolerations ?? [];
  const kept = present.map((toleration) =>
    isDefaultPatience(toleration) ? withoutEnd(toleration) : toleration,
  );
  const missing = patienceKeys.filter((key) => !kept.some((toleration) => covers(toleration, key)));
  const added = missing.map((key): Toleration => ({ key, operator: "Exists", effect: "NoExecute" }));
  const isSame = added.length === 0 && kept.every((toleration, index) => toleration === present[index]);
  return isSame ? [] : [{ op: "add", path: "/spec/tolerations", value: [...kept, ...added] }];
}

function isDefaultPatience({ key, effect, tolerationSeconds }: Toleration): boolean {
  return (
    patienceKeys.some((each) => each === key) &&
    effect === "NoExecute" &&
    tolerationSeconds === defaultPatienceSeconds
  );
}

function withoutEnd({ tolerationSeconds: _seconds, ...toleration }: Toleration): Toleration {
  return toleration;
}

function covers({ key, effect }: Toleration, wanted: string): boolean {
  return key === wanted && (!effect || effect === "NoExecute");
}
