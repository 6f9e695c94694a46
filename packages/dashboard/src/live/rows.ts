/* oxlint-disable complexity -- these are mappings: one default for each field that may be missing, and no decisions */
/** Objects of the API server as rows of the page. Every field is read as text that may hold anything. */
import {
  annotation,
  apiGroup,
  findCondition,
  label,
  machineContainer,
  nodeAnnotation,
  nodeLabel,
  readMachineState,
  readText,
  readVmRuntime,
  readVmSpec,
  wantsScreen,
  type AgentStatus,
  type CocoonHibernationSpec,
  type CocoonHibernationStatus,
  type CocoonSetSpecInput,
  type CocoonSetStatus,
  type ToolboxStatus,
} from "@cocoon/contract";
import { resourceType, type KubeEvent, type KubeObject, type Node, type Pod } from "@cocoon/kube";
import type { EventRow, HibernationRow, MachineRow, NodeRow, SetMember, SetRow } from "../shared/rows.ts";

export interface SetObject extends KubeObject {
  readonly spec?: CocoonSetSpecInput & { readonly deletionPolicy?: string };
  readonly status?: CocoonSetStatus;
}

export interface HibernationObject extends KubeObject {
  readonly spec: CocoonHibernationSpec;
  readonly status?: CocoonHibernationStatus;
}

const group = { group: apiGroup, version: "v1" };
export const cocoonSets = resourceType<SetObject>({ ...group, kind: "CocoonSet" });
export const cocoonHibernations = resourceType<HibernationObject>({ ...group, kind: "CocoonHibernation" });

export function readMachineRow(pod: Pod): MachineRow {
  const { metadata, spec } = pod;
  const { annotations } = metadata;
  const vm = readVmSpec(annotations);
  const runtime = readVmRuntime(annotations);
  const [container] = spec?.containers ?? [];
  const { cpu = "", memory = "" } = { ...container?.resources?.limits, ...container?.resources?.requests };
  return {
    kind: "machine",
    ...readNames(pod),
    set: metadata.labels?.[label.set] ?? "",
    role: metadata.labels?.[label.role] ?? "",
    ...readMachineState(pod),
    node: spec?.nodeName ?? "",
    ip: runtime.ip,
    cpu,
    memory,
    image: vm.image,
    os: readText(annotations, annotation.os),
    vmName: vm.vmName,
    forkedFrom: readText(annotations, annotation.forkFrom),
    snapshot:
      readText(annotations, annotation.snapshotDigest) || readText(annotations, annotation.restoredDigest),
    idleSince: readText(annotations, annotation.idleSince),
    container: container?.name ?? machineContainer,
    screen: vm.managed && wantsScreen(vm),
    generation: Number(readText(annotations, annotation.lifecycleObservedGeneration)) || 0,
  };
}

export function readSetRow(set: SetObject): SetRow {
  const { spec, status } = set;
  const { readyAgents = 0, desiredAgents = 0, readyToolboxes = 0, desiredToolboxes = 0 } = status ?? {};
  return {
    kind: "set",
    ...readNames(set),
    phase: status?.phase ?? "Pending",
    suspend: spec?.suspend ?? false,
    ready: readyAgents + readyToolboxes,
    desired: desiredAgents + desiredToolboxes,
    replicas: spec?.agent.replicas ?? 0,
    image: spec?.agent.image ?? "",
    node: spec?.nodeName ?? "",
    pool: spec?.nodePool ?? "",
    snapshotPolicy: spec?.snapshotPolicy ?? "always",
    deletionPolicy: spec?.deletionPolicy ?? "",
    deleting: set.metadata.deletionTimestamp !== undefined,
    message: findCondition(status?.conditions, "Ready")?.message ?? "",
    members: [...(status?.agents ?? []), ...(status?.toolboxes ?? [])].map(readMember),
  };
}

function readMember(member: AgentStatus | ToolboxStatus): SetMember {
  return {
    podName: member.podName ?? "",
    role: "role" in member ? member.role : "toolbox",
    state: member.lifecycleState === "hibernated" ? "asleep" : member.ready ? "ready" : "pending",
    node: member.nodeName ?? "",
    vmName: member.vmName ?? "",
    forkedFrom: "forkedFrom" in member ? (member.forkedFrom ?? "") : "",
    snapshot: member.snapshotDigest ?? "",
  };
}

export function readHibernationRow({ metadata, spec, status }: HibernationObject): HibernationRow {
  const ready = findCondition(status?.conditions, "Ready");
  return {
    kind: "hibernation",
    namespace: metadata.namespace ?? "",
    name: metadata.name ?? "",
    desire: spec.desire,
    phase: status?.phase ?? "Pending",
    message: ready?.message ?? "",
    digest: status?.snapshotDigest ?? "",
    since: ready?.lastTransitionTime ?? "",
  };
}

export function readNodeRow({ metadata, spec, status }: Node): NodeRow {
  const ready = status?.conditions?.find(({ type }) => type === "Ready");
  const { cpu = "", memory = "" } = status?.allocatable ?? {};
  return {
    kind: "node",
    namespace: "",
    name: metadata.name ?? "",
    ready: ready?.status === "True",
    message: ready?.message ?? "",
    unschedulable: spec?.unschedulable ?? false,
    pool: metadata.labels?.[nodeLabel.pool] ?? "",
    cpu,
    memory,
    machines: metadata.annotations?.[nodeAnnotation.machines] ?? "",
    frozen: (metadata.annotations?.[nodeAnnotation.frozenMachines] ?? "").split(",").filter(Boolean).length,
    pressure: (status?.conditions ?? [])
      .filter(({ type, status: value }) => /Pressure$|^NetworkUnavailable$/.test(type) && value === "True")
      .map(({ type }) => type),
    runtime: readString(status?.nodeInfo?.["containerRuntimeVersion"]),
    version: readString(status?.nodeInfo?.["kubeletVersion"]),
    createdAt: metadata.creationTimestamp ?? "",
  };
}

export function readEventRow(event: KubeEvent): EventRow {
  const { metadata, regarding, eventTime, series } = event;
  const created = eventTime ?? metadata.creationTimestamp ?? "";
  const { deprecatedFirstTimestamp: first, deprecatedLastTimestamp: last } = event as DeprecatedTimes;
  return {
    kind: "event",
    namespace: metadata.namespace ?? "",
    name: metadata.name ?? "",
    about: `${regarding?.kind ?? ""}/${regarding?.name ?? ""}`,
    type: event.type ?? "",
    reason: event.reason ?? "",
    message: event.note ?? "",
    count: series?.count ?? event.deprecatedCount ?? 1,
    firstAt: first ?? created,
    lastAt: series?.lastObservedTime ?? last ?? created,
    source: event.reportingController ?? "",
  };
}

/** Of events that were written in the older form. */
interface DeprecatedTimes {
  readonly deprecatedFirstTimestamp?: string;
  readonly deprecatedLastTimestamp?: string;
}

function readNames({ metadata }: KubeObject): Pick<MachineRow, "namespace" | "name" | "uid" | "createdAt"> {
  const { namespace = "", name = "", uid = "", creationTimestamp: createdAt = "" } = metadata;
  return { namespace, name, uid, createdAt };
}

function readString(value: unknown): string {
  return typeof value === "string" ? value : "";
}
