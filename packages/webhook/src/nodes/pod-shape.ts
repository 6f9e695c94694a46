/** What a pod demands of its node, read from the object that is being admitted. */
import { createHash } from "node:crypto";
import type { PodSpec } from "@cocoon/kube";
import { readPodDemand, type PodDemand } from "@cocoon/kube/scheduling";

export interface PodShape extends PodDemand {
  readonly nodeName: string;
  /** What only the scheduler can decide about; undefined when a node can be chosen without it. */
  readonly unchecked: string | undefined;
}

/** Taints of nodes that are away. A machine waits for its node, whatever its pod tolerates. */
export const patienceKeys = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] as const;

export function readPodShape(spec: PodSpec): PodShape {
  const { demand, problem } = tryReadDemand(spec);
  return {
    ...demand,
    // Whether the node is ready is decided by its condition.
    tolerations: demand.tolerations.filter(({ key }) => !patienceKeys.some((each) => each === key)),
    nodeName: spec.nodeName ?? "",
    unchecked: problem ?? findUncheckedPart(spec),
  };
}

function tryReadDemand(spec: PodSpec): { readonly demand: PodDemand; readonly problem?: string } {
  try {
    return { demand: readPodDemand(spec) };
  } catch {
    const { affinity: _unreadable, ...rest } = spec;
    return { demand: readPodDemand(rest), problem: "a node affinity that cannot be read" };
  }
}

/** The same for pods that ask for the same, whatever else is in them. */
export function computeShapeDigest({ requests, selector, ...rest }: PodShape): string {
  const text = JSON.stringify([
    sorted(requests),
    sorted(selector),
    rest.terms,
    rest.unchecked,
    rest.tolerations,
    rest.nodeName,
  ]);
  return createHash("sha256").update(text).digest("base64url").slice(0, 12);
}

function sorted(map: Readonly<Record<string, unknown>>): [string, unknown][] {
  return Object.entries(map).toSorted(([left], [right]) => (left < right ? -1 : 1));
}

function findUncheckedPart(spec: PodSpec): string | undefined {
  const { affinity } = spec;
  if (getMember(affinity, "podAffinity") || getMember(affinity, "podAntiAffinity")) return "pod affinity";
  if (isFilled(spec["topologySpreadConstraints"])) return "topology spread";
  if (isFilled(spec["resourceClaims"])) return "resource claims";
  if (isFilled(spec["schedulingGates"])) return "scheduling gates";
  if (spec.containers.some(({ ports }) => ports?.some((port) => "hostPort" in port && port.hostPort)))
    return "host ports";
  const bound = spec.volumes?.some((volume) => volume["persistentVolumeClaim"] ?? volume["ephemeral"]);
  return bound ? "volumes" : undefined;
}

function isFilled(value: unknown): boolean {
  return Array.isArray(value) && value.length > 0;
}

function getMember(value: unknown, key: string): unknown {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>)[key] : undefined;
}
