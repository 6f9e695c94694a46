/** What a pod asks of its node, read from the object that is being admitted. */
import { createHash } from "node:crypto";
import { requirementsOf, type LabelRequirement } from "@cocoon/core/label-selector";
import type { PodSpec, Toleration } from "@cocoon/kube";
import { requestsOf, type Amounts } from "./amounts.ts";

/** One alternative of a required node affinity: all of its requirements hold. */
export interface NodeTerm {
  readonly labels: readonly LabelRequirement[];
  readonly fields: readonly LabelRequirement[];
}

export interface PodShape {
  readonly tolerations: readonly Toleration[];
  readonly selector: Readonly<Record<string, string>>;
  /** Undefined: no affinity is required. Empty: nothing can match. */
  readonly terms: readonly NodeTerm[] | undefined;
  readonly requests: Amounts;
  /** A node that the pod names itself. */
  readonly nodeName: string;
  /** What only the scheduler can judge; undefined when a node can be chosen without it. */
  readonly unchecked: string | undefined;
}

/** Taints of nodes that are away. A machine waits for its node, however its pod says so. */
export const patienceKeys = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] as const;

export function readPodShape(spec: PodSpec): PodShape {
  const required = nodeTermsOf(spec);
  return {
    // Whether the node is ready is judged by its condition.
    tolerations: (spec.tolerations ?? []).filter(({ key }) => !patienceKeys.some((each) => each === key)),
    selector: spec.nodeSelector ?? {},
    terms: required.terms,
    requests: requestsOf(spec),
    nodeName: spec.nodeName ?? "",
    unchecked: required.trouble ?? uncheckedPart(spec),
  };
}

/** The same for pods that ask for the same, whatever else is in them. */
export function digestOfShape({ requests, selector, ...rest }: PodShape): string {
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

interface RawTerm {
  readonly matchExpressions?: readonly RawExpression[] | null;
  readonly matchFields?: readonly RawExpression[] | null;
}

interface RawExpression {
  readonly key: string;
  readonly operator: string;
  readonly values?: readonly string[];
}

interface Terms {
  readonly terms: readonly NodeTerm[] | undefined;
  readonly trouble?: string;
}

function nodeTermsOf({ affinity }: PodSpec): Terms {
  const raw = requiredTermsOf(affinity);
  if (raw === undefined) return { terms: undefined };
  try {
    return { terms: raw.filter(isNotEmpty).map(readTerm) };
  } catch {
    return { terms: undefined, trouble: "a node affinity that cannot be read" };
  }
}

/** The required node affinity as it stands in the pod. */
export function requiredTermsOf(affinity: PodSpec["affinity"]): readonly RawTerm[] | undefined {
  const nodeAffinity = memberOf(affinity, "nodeAffinity");
  const required = memberOf(nodeAffinity, "requiredDuringSchedulingIgnoredDuringExecution");
  const terms = memberOf(required, "nodeSelectorTerms");
  return Array.isArray(terms) ? terms : undefined;
}

/** An empty term matches no node. */
function isNotEmpty({ matchExpressions, matchFields }: RawTerm): boolean {
  return (matchExpressions?.length ?? 0) + (matchFields?.length ?? 0) > 0;
}

function readTerm({ matchExpressions, matchFields }: RawTerm): NodeTerm {
  return {
    labels: requirementsOf({ matchExpressions: matchExpressions ?? [] }),
    fields: requirementsOf({ matchExpressions: matchFields ?? [] }),
  };
}

function uncheckedPart(spec: PodSpec): string | undefined {
  const { affinity } = spec;
  if (memberOf(affinity, "podAffinity") || memberOf(affinity, "podAntiAffinity")) return "pod affinity";
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

function memberOf(value: unknown, key: string): unknown {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>)[key] : undefined;
}
