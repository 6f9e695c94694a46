/**
 * `/validate`: Deployments, StatefulSets, ReplicaSets and their scale. Fewer replicas mean machines that are taken down,
 * so that is refused unless the workload says that it is meant. Taking the toleration away, deleting the workload and
 * shrinking its ReplicaSet come to the same and are treated alike; controllers that only carry out what was let in
 * before are not stopped. A rollout is not a scale-down: each replica gets its machine's name back.
 */
import { hostTaint, workloadAnnotation } from "@cocoon/contract";
import { isFault, getErrorMessage, type Abortable } from "@cocoon/core";
import type { AdmissionContext, AdmissionRequest, JsonObject } from "@cocoon/kube/admission";
import { allowed, denied, failed, skipped, type AdmissionResult } from "./admission-result.ts";

export interface WorkloadRules {
  /** The workload of a scale, from the cache or the API server; undefined when there is none. Throws when the lookup failed. */
  readonly findParent: (
    parent: ParentKey,
    options: Abortable,
  ) => Promise<Parent | undefined> | Parent | undefined;
  readonly guardDeletion: boolean;
}

export interface ParentKey {
  readonly resource: "deployments" | "statefulsets" | "replicasets";
  readonly namespace: string;
  readonly name: string;
}

export interface Parent {
  readonly isCocoon: boolean;
  readonly allowsScaleDown: boolean;
}

const kinds: Readonly<Record<string, ParentKey["resource"]>> = {
  Deployment: "deployments",
  StatefulSet: "statefulsets",
  ReplicaSet: "replicasets",
};

/** They shrink ReplicaSets of Deployments, and remove what belongs to something that is gone. */
const controllers: ReadonlySet<string> = new Set([
  "system:serviceaccount:kube-system:deployment-controller",
  "system:serviceaccount:kube-system:generic-garbage-collector",
  "system:serviceaccount:kube-system:namespace-controller",
  "system:kube-controller-manager",
]);

export function validateWorkloads(rules: WorkloadRules) {
  return (
    request: AdmissionRequest,
    context: AdmissionContext,
  ): AdmissionResult | Promise<AdmissionResult> => {
    if (request.operation === "DELETE" && request.subResource === "") return decideDeletion(request, rules);
    if (request.operation !== "UPDATE") return skipped("operation");
    if (request.subResource === "scale") return decideScale(request, rules, context);
    if (!Object.hasOwn(kinds, request.kind.kind)) return skipped("kind");
    return decideUpdate(request);
  };
}

function decideUpdate(request: AdmissionRequest): AdmissionResult {
  const before = tryReadWorkload(request.oldObject);
  const after = tryReadWorkload(request.object);
  if (!before || !after) return skipped("decode");
  if (!before.isCocoon) return skipped("not_cocoon");
  if (after.allowsScaleDown || isCarriedOut(request)) return allowed();
  if (after.replicas < before.replicas) return scaleDown(request, before.replicas, after.replicas);
  if (!after.isCocoon && before.replicas > 0) return tolerationGone(request);
  return allowed();
}

function decideDeletion(request: AdmissionRequest, { guardDeletion }: WorkloadRules): AdmissionResult {
  if (!Object.hasOwn(kinds, request.kind.kind)) return skipped("kind");
  const before = tryReadWorkload(request.oldObject);
  if (!before) return skipped("decode");
  if (!before.isCocoon) return skipped("not_cocoon");
  const isHarmless = before.replicas === 0 || before.allowsScaleDown || !guardDeletion;
  if (isHarmless || isCarriedOut(request)) return allowed();
  return denied(
    `cocoon-webhook: deletion blocked for cocoon ${describe(request)}: it would take down ${before.replicas} machines. ${remedy}`,
  );
}

async function decideScale(
  request: AdmissionRequest,
  { findParent }: WorkloadRules,
  { signal }: AdmissionContext,
): Promise<AdmissionResult> {
  const before = tryReadReplicas(request.oldObject, 0);
  const after = tryReadReplicas(request.object, 0);
  if (before === undefined || after === undefined) return skipped("decode");
  const { resource } = request.resource;
  if (resource !== "deployments" && resource !== "statefulsets" && resource !== "replicasets")
    return skipped("no_parent");
  let parent: Parent | undefined;
  try {
    parent = await findParent({ resource, namespace: request.namespace, name: request.name }, { signal });
  } catch (error) {
    signal.throwIfAborted();
    const what = resource.slice(0, -1);
    const message = `cocoon-webhook: cannot verify parent workload: get parent ${what}: ${getErrorMessage(error)}`;
    return failed("parent_fetch", message, isFault(error) ? { code: 503, reason: "ServiceUnavailable" } : {});
  }
  if (!parent) return skipped("no_parent");
  if (!parent.isCocoon) return skipped("not_cocoon");
  if (after >= before || parent.allowsScaleDown || isCarriedOut(request)) return allowed();
  return scaleDown(request, before, after);
}

const remedy = `Use a CocoonHibernation CR to suspend individual agents. To scale down on purpose, annotate the workload with ${workloadAnnotation.allowScaleDown}=true`;

function scaleDown(request: AdmissionRequest, before: number, after: number): AdmissionResult {
  return denied(
    `cocoon-webhook: scale-down blocked for cocoon ${describe(request)} (${before} -> ${after}). ${remedy}`,
  );
}

function tolerationGone(request: AdmissionRequest): AdmissionResult {
  return denied(
    `cocoon-webhook: removing toleration ${hostTaint.key} blocked for cocoon ${describe(request)}: its machines would be replaced by ordinary pods. ${remedy}`,
  );
}

function describe({ kind, namespace, name }: AdmissionRequest): string {
  return `${kind.kind} ${namespace}/${name}`;
}

function isCarriedOut({ userInfo, kind, operation }: AdmissionRequest): boolean {
  return controllers.has(userInfo.username) && (kind.kind === "ReplicaSet" || operation === "DELETE");
}

function tryReadWorkload(
  object: JsonObject | undefined,
): { readonly replicas: number; readonly isCocoon: boolean; readonly allowsScaleDown: boolean } | undefined {
  const replicas = tryReadReplicas(object, 1);
  const spec = asRecord(object?.["spec"]);
  const metadata = asRecord(object?.["metadata"]);
  if (replicas === undefined || !spec || !metadata) return undefined;
  const template = asRecord(spec["template"]);
  const tolerations = asRecord(template?.["spec"])?.["tolerations"] ?? [];
  if (!Array.isArray(tolerations)) return undefined;
  return {
    replicas,
    isCocoon: tolerations.some((toleration: unknown) => asRecord(toleration)?.["key"] === hostTaint.key),
    allowsScaleDown: asRecord(metadata["annotations"])?.[workloadAnnotation.allowScaleDown] === "true",
  };
}

/** Undefined when the object cannot be read; `missing` when it says nothing. */
function tryReadReplicas(object: JsonObject | undefined, missing: number): number | undefined {
  if (!object) return undefined;
  const given = object["spec"];
  if (given === undefined || given === null) return missing;
  const spec = asRecord(given);
  if (!spec) return undefined;
  const replicas = spec["replicas"] ?? missing;
  return Number.isInteger(replicas) ? (replicas as number) : undefined;
}

function asRecord(value: unknown): Readonly<Record<string, unknown>> | undefined {
  const isRecord = typeof value === "object" && value !== null && !Array.isArray(value);
  return isRecord ? (value as Readonly<Record<string, unknown>>) : undefined;
}
