/**
 * Whether a pod still is what the spec requests. What can be changed on a living machine is re-annotated and never
 * destroys it; the rest is covered by a hash that the pod carries, so that neither defaults of the API server nor
 * limit ranges look like a change. Pods without a hash (made by another operator) are compared field by field, and
 * only in what the spec says itself.
 */
import { createHash } from "node:crypto";
import {
  annotation,
  nodeLabel,
  readPool,
  writeVmRuntime,
  type CocoonSet,
  type VmSpec,
} from "@cocoon/contract";
import { jsonEqual } from "@cocoon/core";
import { compareQuantities, tryParseQuantity } from "@cocoon/core/quantity";
import type { Machine } from "../pod-machine.ts";
import type { Member } from "./members.ts";

type Amounts = Readonly<Record<string, string | number>> | undefined;

/** Amounts as numbers: 1024Mi and 1Gi are one thing. */
function nanos(amount: string | number | undefined): string {
  if (amount === undefined) return "";
  return tryParseQuantity(amount)?.nanos.toString() ?? String(amount);
}

function amounts(list: Amounts): Record<string, string> {
  return { cpu: nanos(list?.["cpu"]), memory: nanos(list?.["memory"]) };
}

export function templateHash(set: CocoonSet, member: Member): string {
  const { vm, spec } = member;
  const agent = member.role === "toolbox" ? undefined : member.spec;
  const parts = {
    image: vm.image,
    mode: vm.mode,
    os: vm.os,
    backend: vm.backend,
    storage: nanos(spec.storage),
    requests: amounts(spec.resources?.requests),
    limits: amounts(spec.resources?.limits),
    account: agent?.serviceAccountName || "default",
    envFrom: agent?.envFrom ?? [],
    pool: set.spec.nodePool,
    class: set.spec.snapshotCompatibilityClass ?? "",
  };
  return createHash("sha256").update(JSON.stringify(parts)).digest("hex").slice(0, 16);
}

/** What differs for good, in words; undefined when the pod can stay. */
export function findDrift(set: CocoonSet, member: Member, machine: Machine): string | undefined {
  const carried = machine.pod.metadata.annotations?.[annotation.templateHash];
  if (carried !== undefined)
    return carried === templateHash(set, member) ? undefined : "the spec of the machine changed";
  return foreignDrift(set, member, machine);
}

const lasting = ["image", "mode", "os", "backend"] as const satisfies readonly (keyof VmSpec)[];

function foreignDrift(set: CocoonSet, member: Member, machine: Machine): string | undefined {
  const { pod } = machine;
  const { nodePool, snapshotCompatibilityClass } = set.spec;
  const field = lasting.find((each) => member.vm[each] !== machine.vm[each]);
  if (field) return `${field} changed from "${machine.vm[field]}" to "${member.vm[field]}"`;
  if (nanos(member.vm.storage || undefined) !== nanos(machine.vm.storage || undefined))
    return "storage changed";
  if (readPool(pod) !== nodePool) return `pool changed from "${readPool(pod)}" to "${nodePool}"`;
  const carriedClass = pod.spec?.nodeSelector?.[nodeLabel.snapshotCpuClass];
  if (carriedClass !== undefined && carriedClass !== snapshotCompatibilityClass) return "CPU class changed";
  if (resourcesDiffer(member, machine)) return "resources changed";
  return member.role === "toolbox" ? undefined : agentDrift(member, machine);
}

function agentDrift(member: Exclude<Member, { role: "toolbox" }>, { pod }: Machine): string | undefined {
  const account = pod.spec?.serviceAccountName || "default";
  if (account !== (member.spec.serviceAccountName || "default")) return "service account changed";
  const carried = pod.spec?.containers[0]?.["envFrom"] ?? [];
  return jsonEqual(carried, member.spec.envFrom ?? []) ? undefined : "envFrom changed";
}

/** Only what the spec names is compared: everything else was filled in by the API server or a limit range. */
function resourcesDiffer(member: Member, { pod }: Machine): boolean {
  const carried = pod.spec?.containers[0]?.resources;
  const { requests, limits } = member.spec.resources ?? {};
  return (["cpu", "memory"] as const).some(
    (name) =>
      amountDiffers(limits?.[name], carried?.limits?.[name]) ||
      amountDiffers(requests?.[name], carried?.requests?.[name]),
  );
}

function amountDiffers(wanted: string | number | undefined, carried: string | undefined): boolean {
  if (wanted === undefined) return false;
  const [one, other] = [tryParseQuantity(wanted), tryParseQuantity(carried ?? "")];
  return one === undefined || other === undefined || compareQuantities(one, other) !== 0;
}

const advisory = {
  snapshotPolicy: annotation.snapshotPolicy,
  connType: annotation.connType,
  probePort: annotation.probePort,
  network: annotation.network,
  forcePull: annotation.forcePull,
  noDirectIo: annotation.noDirectIo,
} as const satisfies Partial<Record<keyof VmSpec, string>>;

/** The annotations to set on a living machine; null removes. Empty when nothing differs. */
export function advisoryChanges(member: Member, machine: Machine): Record<string, string | null> {
  const changes: Record<string, string | null> = {};
  for (const [field, key] of Object.entries(advisory) as [keyof typeof advisory, string][]) {
    const wanted = member.vm[field];
    if (wanted === machine.vm[field]) continue;
    const text = wanted === true ? "true" : wanted;
    changes[key] = text === false || text === "" ? null : text;
  }
  return { ...changes, ...staticChanges(member, machine) };
}

/** A static machine is not ours: a new address is written to its pod, nothing is replaced. */
function staticChanges(member: Member, machine: Machine): Record<string, string> {
  if (member.role !== "toolbox" || member.spec.mode !== "static") return {};
  const { staticIP = "", staticVMID = "", vncPort = 0 } = member.spec;
  const wanted = writeVmRuntime({ ip: staticIP, vmId: staticVMID, vncPort });
  const carried = machine.pod.metadata.annotations ?? {};
  return Object.fromEntries(Object.entries(wanted).filter(([key, text]) => carried[key] !== text));
}
