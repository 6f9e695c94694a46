/** What a node says of itself, and the Node object that follows from it. */
import { formatSeconds, mergeConditions } from "@cocoon/core/conditions";
import type { Node, Taint } from "@cocoon/kube";

interface NodeCondition {
  readonly type: string;
  readonly status: "True" | "False" | "Unknown";
  readonly reason: string;
  readonly message: string;
}

export interface NodeDescription {
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly taints: readonly Taint[];
  readonly providerId?: string;
  readonly capacity: Readonly<Record<string, string>>;
  readonly allocatable: Readonly<Record<string, string>>;
  readonly addresses: readonly { readonly type: string; readonly address: string }[];
  readonly kubeletPort: number;
  /** Wins over what is read from the host (operating system, its image, kernel, architecture). */
  readonly nodeInfo: Readonly<Record<string, string>>;
  readonly conditions: readonly NodeCondition[];
}

export type NodeStatus = NonNullable<Node["status"]>;

/** The API server then speaks WebSocket to us end to end: less work for it, and no lost output at a command's end. */
const declaredFeatures = ["ExtendWebSocketsToKubelet"];

function wantedLabels(name: string, description: NodeDescription): Readonly<Record<string, string>> {
  return {
    "kubernetes.io/hostname": name,
    "kubernetes.io/os": "linux",
    "kubernetes.io/arch": description.nodeInfo["architecture"] ?? "amd64",
    "kubernetes.io/role": "agent",
    type: "virtual-kubelet",
    ...description.labels,
  };
}

/** `lastTransitionTime` moves only when a condition changes its status. */
export function wantedStatus(
  description: NodeDescription,
  before: NodeStatus | undefined,
  now: Date,
): NodeStatus {
  const lastHeartbeatTime = formatSeconds(now);
  const types = new Set(description.conditions.map(({ type }) => type));
  const conditions = mergeConditions(
    before?.conditions?.filter(({ type }) => types.has(type)),
    description.conditions.map((condition) => ({ ...condition, lastHeartbeatTime })),
    { now },
  );
  return {
    phase: "Running",
    capacity: description.capacity,
    allocatable: description.allocatable,
    addresses: description.addresses,
    daemonEndpoints: { kubeletEndpoint: { Port: description.kubeletPort } },
    nodeInfo: description.nodeInfo,
    conditions,
    declaredFeatures,
  };
}

export function newNode(name: string, description: NodeDescription, now: Date): Node {
  return {
    metadata: { name, labels: wantedLabels(name, description), annotations: description.annotations ?? {} },
    spec: {
      taints: description.taints,
      ...(description.providerId ? { providerID: description.providerId } : {}),
    },
    status: wantedStatus(description, undefined, now),
  };
}

/** Labels, annotations and taints that must be put right; undefined when all is as wanted. Others' are kept. */
export function metadataRepair(name: string, description: NodeDescription, node: Node): object | undefined {
  const labels = differing(wantedLabels(name, description), node.metadata.labels);
  const annotations = differing(description.annotations ?? {}, node.metadata.annotations);
  const taints = missingTaints(description.taints, node.spec?.taints ?? []);
  if (!labels && !annotations && !taints) return undefined;
  // Taints are written as a whole list: not over one that was added meanwhile.
  const { resourceVersion } = node.metadata;
  const metadata = {
    ...(labels ? { labels } : {}),
    ...(annotations ? { annotations } : {}),
    ...(taints && resourceVersion !== undefined ? { resourceVersion } : {}),
  };
  return { metadata, ...(taints ? { spec: { taints } } : {}) };
}

function differing(
  wanted: Readonly<Record<string, string>>,
  actual: Readonly<Record<string, string>> | undefined,
): Readonly<Record<string, string>> | undefined {
  const wrong = Object.entries(wanted).filter(([key, value]) => actual?.[key] !== value);
  return wrong.length === 0 ? undefined : Object.fromEntries(wrong);
}

function missingTaints(wanted: readonly Taint[], actual: readonly Taint[]): readonly Taint[] | undefined {
  const same = (left: Taint, right: Taint) =>
    left.key === right.key && left.effect === right.effect && (left.value ?? "") === (right.value ?? "");
  const missing = wanted.filter((taint) => !actual.some((each) => same(each, taint)));
  if (missing.length === 0) return undefined;
  const kept = actual.filter(
    (each) => !missing.some((taint) => taint.key === each.key && taint.effect === each.effect),
  );
  return [...kept, ...missing];
}

/** Whether writing the new status would tell anything besides the time. */
export function saysSomethingNew(wanted: NodeStatus, actual: NodeStatus | undefined): boolean {
  if (!actual) return true;
  const { conditions: wantedConditions = [], ...rest } = wanted;
  for (const [field, value] of Object.entries(rest)) if (!covers(value, actual[field])) return true;
  return wantedConditions.some((condition) => {
    const old = actual.conditions?.find((each) => each.type === condition.type);
    return (
      old?.status !== condition.status || old.reason !== condition.reason || old.message !== condition.message
    );
  });
}

/** Whether `actual` has everything that `wanted` has; the server may have added fields. */
function covers(wanted: unknown, actual: unknown): boolean {
  if (typeof wanted !== "object" || wanted === null) return wanted === actual;
  if (typeof actual !== "object" || actual === null) return false;
  if (Array.isArray(wanted))
    return (
      Array.isArray(actual) &&
      wanted.length === actual.length &&
      wanted.every((each, index) => covers(each, actual[index]))
    );
  const fields = actual as Readonly<Record<string, unknown>>;
  return Object.entries(wanted).every(([key, value]) => covers(value, fields[key]));
}
