/**
 * `/mutate-workload`: Deployments of machines roll out without surge. A surge pod runs beside the pod that it replaces,
 * so it could only be another machine under another name; without surge the new pod takes over the slot, the name and
 * the node of the pod that is gone.
 */
import { hostTaint } from "@cocoon/contract";
import type { JsonPatchOperation } from "@cocoon/core/json-patch";
import { allowWithPatch, type AdmissionRequest, type JsonObject } from "@cocoon/kube/admission";
import { allowed, skipped, type AdmissionResult } from "./admission-result.ts";

export function mutateWorkloads(request: AdmissionRequest): AdmissionResult {
  if (request.operation !== "CREATE" && request.operation !== "UPDATE") return skipped("operation");
  if (request.kind.kind !== "Deployment" || request.subResource !== "") return skipped("kind");
  const spec = tryGetObject(request.object?.["spec"]);
  if (!spec) return skipped("decode");
  if (!toleratesVmHosts(spec)) return skipped("not_cocoon");
  const strategy = tryGetObject(spec["strategy"]) ?? {};
  if (strategy["type"] === "Recreate") return allowed();
  const rolling = tryGetObject(strategy["rollingUpdate"]) ?? {};
  if (isZero(rolling["maxSurge"])) return allowed();
  const warning = `machines of Deployment ${request.namespace}/${request.name} are replaced one after the other: spec.strategy.rollingUpdate.maxSurge is set to 0, because a surge pod cannot have the machine of the pod that it replaces. Set maxSurge: 0 in the manifest to silence this warning`;
  return allowed(allowWithPatch([withoutSurge(rolling)], { warnings: [warning] }));
}

/** Both may not be zero. */
function withoutSurge(rolling: JsonObject): JsonPatchOperation {
  const maxUnavailable = rolling["maxUnavailable"] ?? "25%";
  const rollingUpdate = { maxSurge: 0, maxUnavailable: isZero(maxUnavailable) ? 1 : maxUnavailable };
  return { op: "add", path: "/spec/strategy", value: { type: "RollingUpdate", rollingUpdate } };
}

function isZero(value: unknown): boolean {
  return value === 0 || value === "0" || value === "0%";
}

function toleratesVmHosts(spec: JsonObject): boolean {
  const pod = tryGetObject(tryGetObject(spec["template"])?.["spec"]);
  const tolerations: unknown = pod?.["tolerations"];
  return (
    Array.isArray(tolerations) && tolerations.some((each) => tryGetObject(each)?.["key"] === hostTaint.key)
  );
}

function tryGetObject(value: unknown): JsonObject | undefined {
  const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
  return isObject ? (value as JsonObject) : undefined;
}
