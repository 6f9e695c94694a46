/** The status of a Sandbox, in upstream's words. Pure. */
import { annotation, readFlag } from "@cocoon/contract";
import { sandboxHash, sandboxLabel, type Sandbox, type SandboxStatus } from "@cocoon/contract/agent-sandbox";
import { withConditions, type ConditionReport } from "@cocoon/contract";
import { getErrorMessage, isFault } from "@cocoon/core";
import { findCondition, isConditionTrue } from "@cocoon/core/conditions";
import type { Pod } from "@cocoon/kube";
import { isControlledBy } from "@cocoon/kube/controller";
import { isExpired, isLiving, type ObservedSandbox } from "./plan-sandbox.ts";

type Report = Omit<ConditionReport, "observedGeneration">;

interface StatusInput extends ObservedSandbox {
  readonly error?: unknown;
  readonly clusterDomain: string;
}

const finished: Readonly<Record<string, Report>> = {
  Succeeded: {
    type: "Finished",
    status: "True",
    reason: "PodSucceeded",
    message: "Pod completed successfully",
  },
  Failed: { type: "Finished", status: "True", reason: "PodFailed", message: "Pod failed" },
};

export function computeSandboxStatus(input: StatusInput): SandboxStatus {
  const { sandbox, owned, now } = input;
  const expired = isExpired(sandbox, now);
  const [pod] = owned;
  const ended = pod && finished[pod.status?.phase ?? ""];
  const reports = [
    computeSuspended(input),
    ...(pod && !expired ? [computeScheduled(pod)] : []),
    expired ? expiredReport : computeReady(input),
    ...(ended ? [ended] : []),
  ];
  const observedGeneration = sandbox.metadata.generation ?? 0;
  const types = new Set(reports.map(({ type }) => type));
  // What is over stays known after an expiry took its pod.
  const kept = (sandbox.status?.conditions ?? []).filter(
    ({ type }) => types.has(type) || (expired && type === "Finished"),
  );
  const conditions = withConditions(
    kept,
    reports.map((report) => ({ ...report, observedGeneration })),
    { now },
  );
  return expired ? { conditions } : { conditions, ...describeChildren(input) };
}

const expiredReport: Report = {
  type: "Ready",
  status: "False",
  reason: "SandboxExpired",
  message: "Sandbox has expired",
};

function describeChildren({ sandbox, owned, service, clusterDomain }: StatusInput): SandboxStatus {
  const { name = "", namespace = "" } = sandbox.metadata;
  const owns = service !== undefined && isControlledBy(service, sandbox);
  return {
    ...(owns ? { service: name, serviceFQDN: `${name}.${namespace}.svc.${clusterDomain}` } : {}),
    ...describePlace(owned[0], sandbox),
  };
}

/** The selector stays while there is no pod. */
function describePlace(pod: Pod | undefined, { metadata, status }: Sandbox): SandboxStatus {
  if (!pod) return status?.selector ? { selector: status.selector } : {};
  const podIPs = (pod.status?.podIPs ?? []).flatMap(({ ip }) => (ip ? [ip] : []));
  const nodeName = pod.spec?.nodeName;
  return {
    selector: `${sandboxLabel.nameHash}=${sandboxHash(metadata.name ?? "")}`,
    ...(podIPs.length > 0 ? { podIPs } : {}),
    ...(nodeName ? { nodeName } : {}),
  };
}

function computeSuspended({ sandbox, named, owned }: StatusInput): Report {
  const report = (status: "True" | "False", reason: string, message: string): Report => ({
    type: "Suspended",
    status,
    reason,
    message,
  });
  if (sandbox.spec.operatingMode !== "Suspended")
    return report("False", "NotSuspended", "Sandbox is not suspended");
  if (owned.length > 0) return report("False", "PodTerminating", "Pod is terminating. Sandbox is suspending");
  if (named) return report("False", "PodNotOwned", "A Pod of this name is not owned by the Sandbox");
  return report("True", "PodTerminated", "Pod has been terminated. Sandbox is not operational.");
}

function computeScheduled(pod: Pod): Report {
  const found = findCondition(pod.status?.conditions, "PodScheduled");
  if (!found)
    return {
      type: "PodScheduled",
      status: "Unknown",
      reason: "PodSchedulingUnknown",
      message: "Pod has not reported a PodScheduled condition yet",
    };
  const status = found.status === "True" || found.status === "False" ? found.status : "Unknown";
  return {
    type: "PodScheduled",
    status,
    reason: found.reason || "PodScheduled",
    message: found.message ?? "",
  };
}

function computeReady(input: StatusInput): Report {
  const { sandbox, owned, error } = input;
  const failure = (reason: string, message: string): Report => ({
    type: "Ready",
    status: "False",
    reason,
    message,
  });
  if (error !== undefined) {
    const reason = isFault(error, "invalid") ? "InvalidConfiguration" : "ReconcilerError";
    return failure(reason, `Error seen: ${getErrorMessage(error)}`.slice(0, 4_000));
  }
  if (sandbox.spec.operatingMode === "Suspended")
    return failure("SandboxSuspended", owned.length > 0 ? "Sandbox is suspending" : "Sandbox is suspended");
  if (owned.length > 1) return failure("MultiplePods", `${owned.length} Pods are owned by the Sandbox`);
  const ended = finished[owned[0]?.status?.phase ?? ""];
  if (ended) return failure(ended.reason, ended.message);
  return computeDependencies(input);
}

function computeDependencies({ sandbox, owned, service }: StatusInput): Report {
  const { ready: podReady, message: podMessage } = describePod(owned[0]);
  const owns = service !== undefined && isControlledBy(service, sandbox);
  const needsService = sandbox.spec.service ?? owns;
  const serviceText = owns ? "; Service Exists" : "; Service does not exist";
  const message = needsService ? `${podMessage}${serviceText}` : podMessage;
  const ready = podReady && (!needsService || owns);
  const reason = ready ? "DependenciesReady" : "DependenciesNotReady";
  return { type: "Ready", status: ready ? "True" : "False", reason, message };
}

function describePod(pod: Pod | undefined): { readonly ready: boolean; readonly message: string } {
  const waiting = (message: string) => ({ ready: false, message });
  if (!pod) return waiting("Pod does not exist");
  const { phase = "Pending", conditions, podIPs = [] } = pod.status ?? {};
  if (phase !== "Running") return waiting(`Pod exists with phase: ${phase}`);
  // A pod that terminates is not the one that a resumed Sandbox waits for, whatever it still says.
  if (!isConditionTrue(conditions, "Ready") || !isLiving(pod)) return waiting("Pod is Running but not Ready");
  if (podIPs.length === 0) return waiting("Pod is Ready but has no podIPs yet");
  const { annotations } = pod.metadata;
  if (annotations?.[annotation.env] !== undefined && !isEnvApplied(annotations))
    return waiting("Pod is Ready but has not got its environment yet");
  if (readFlag(annotations, annotation.paused) && !readFlag(annotations, annotation.pause))
    return waiting("Pod is Ready but its machine does not run yet");
  return { ready: true, message: "Pod is Ready" };
}

/** The kubelet writes the hash of what it gave to the guest. */
function isEnvApplied(annotations: Readonly<Record<string, string>>): boolean {
  return annotations[annotation.envApplied] === sandboxHash(annotations[annotation.env] ?? "");
}
