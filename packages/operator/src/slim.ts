/** What the operator keeps of pods and nodes, and which of their changes are worth a look. */
import { nodeAnnotation } from "@cocoon/contract";
import { jsonEqual } from "@cocoon/core";
import { findCondition } from "@cocoon/core/conditions";
import type { Container, Node, Pod, PodSpec, PodStatus } from "@cocoon/kube";
import { onUpdate, type Predicate } from "@cocoon/kube/controller";

/** Thousands of pods are kept: only what decisions rest on. */
export function slimPod(pod: Pod): Pod {
  const { metadata, spec, status } = pod;
  return {
    metadata,
    ...(spec ? { spec: slimSpec(spec) } : {}),
    ...(status ? { status: slimStatus(status) } : {}),
  };
}

function slimSpec(spec: PodSpec): PodSpec {
  const { nodeName, nodeSelector, affinity, serviceAccountName, containers, initContainers, overhead } = spec;
  return given({
    nodeName,
    nodeSelector,
    affinity,
    serviceAccountName,
    containers: containers.map(slimContainer),
    initContainers: initContainers?.map(slimInitContainer),
    overhead,
  });
}

function slimStatus({ phase, message, podIPs, conditions, containerStatuses }: PodStatus): PodStatus {
  return given({
    phase,
    message,
    podIPs,
    conditions: conditions?.filter(({ type }) => keptConditions.has(type)),
    containerStatuses: containerStatuses?.map(({ name, state }) => given({ name, state })),
  });
}

type Given<T> = { [Key in keyof T as undefined extends T[Key] ? never : Key]: T[Key] } & {
  [Key in keyof T as undefined extends T[Key] ? Key : never]?: Exclude<T[Key], undefined>;
};

/** Without the members that are undefined. */
function given<T extends object>(value: T): Given<T> {
  return Object.fromEntries(Object.entries(value).filter(([, member]) => member !== undefined)) as Given<T>;
}

const keptConditions: ReadonlySet<string> = new Set(["Ready", "PodScheduled", "DisruptionTarget"]);

function slimContainer({ name, resources, envFrom }: Container): Container {
  return given({ name, resources, envFrom });
}

function slimInitContainer({ name, resources, restartPolicy }: Container): Container {
  return given({ name, resources, restartPolicy });
}

/** An administrator fenced the node: nothing runs there. */
export const outOfServiceTaint = "node.kubernetes.io/out-of-service";

export function slimNode({ metadata, spec, status }: Node): Node {
  return {
    metadata: given({
      name: metadata.name,
      uid: metadata.uid,
      resourceVersion: metadata.resourceVersion,
      labels: metadata.labels ?? {},
      annotations: {
        [nodeAnnotation.machines]: metadata.annotations?.[nodeAnnotation.machines] ?? "",
        [nodeAnnotation.frozenMachines]: metadata.annotations?.[nodeAnnotation.frozenMachines] ?? "",
      },
    }),
    spec: {
      unschedulable: spec?.unschedulable ?? false,
      taints: (spec?.taints ?? []).filter(({ key }) => key === outOfServiceTaint),
    },
    status: {
      allocatable: status?.allocatable ?? {},
      conditions: (status?.conditions ?? []).filter(({ type }) => type === "Ready"),
    },
  };
}

/** Creations, deletions, and updates of what a plan reads: the churn of a running pod's status is not among it. */
export const podChanged: Predicate<Pod> = onUpdate(
  (old, pod) => !jsonEqual(readPlanFields(old), readPlanFields(pod)),
);

function readPlanFields({ metadata, spec, status }: Pod): unknown {
  return [
    metadata.deletionTimestamp ?? "",
    metadata.annotations ?? {},
    metadata.labels ?? {},
    spec?.nodeName ?? "",
    status?.phase ?? "",
    status?.containerStatuses ?? [],
    [...keptConditions].map((type) => {
      const condition = findCondition(status?.conditions, type);
      return [condition?.status ?? "", condition?.reason ?? ""];
    }),
  ];
}

export const nodeChanged: Predicate<Node> = onUpdate(
  (old, node) => !jsonEqual(readNodeFields(old), readNodeFields(node)),
);

function readNodeFields({ metadata, spec, status }: Node): unknown {
  const ready = findCondition(status?.conditions, "Ready")?.status ?? "";
  return [metadata.labels ?? {}, spec?.unschedulable ?? false, status?.allocatable ?? {}, ready];
}
