/** What a pod demands of its node. */
import { parseRequirements, type LabelRequirement } from "@cocoon/core/label-selector";
import type { PodSpec, Toleration } from "../builtin-objects.ts";
import { computeRequests, type Amounts, type RequestingSpec } from "./amounts.ts";

export interface NodeTerm {
  readonly labels: readonly LabelRequirement[];
  readonly fields: readonly LabelRequirement[];
}

export interface PodDemand {
  readonly tolerations: readonly Toleration[];
  readonly selector: Readonly<Record<string, string>>;
  /** Undefined: no affinity is required. Empty: no node can match. */
  readonly terms: readonly NodeTerm[] | undefined;
  readonly requests: Amounts;
  readonly hostPorts: readonly HostPort[];
}

/** Throws `invalid` for a required node affinity that cannot be read. */
export function readPodDemand(spec: PodSpec): PodDemand {
  return {
    tolerations: spec.tolerations ?? [],
    selector: spec.nodeSelector ?? {},
    terms: getRequiredNodeTerms(spec.affinity)?.filter(isNotEmpty).map(readTerm),
    requests: computeRequests(spec),
    hostPorts: readHostPorts(spec),
  };
}

type NodeAffinity = NonNullable<NonNullable<PodSpec["affinity"]>["nodeAffinity"]>;
type RawTerm = NonNullable<
  NodeAffinity["requiredDuringSchedulingIgnoredDuringExecution"]
>["nodeSelectorTerms"][number];

export function getRequiredNodeTerms(affinity: PodSpec["affinity"]): readonly RawTerm[] | undefined {
  return affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms;
}

/** An empty term matches no node. */
function isNotEmpty({ matchExpressions, matchFields }: RawTerm): boolean {
  return (matchExpressions?.length ?? 0) + (matchFields?.length ?? 0) > 0;
}

function readTerm({ matchExpressions, matchFields }: RawTerm): NodeTerm {
  return {
    labels: parseRequirements({ matchExpressions: matchExpressions ?? [] }),
    fields: parseRequirements({ matchExpressions: matchFields ?? [] }),
  };
}

/** Ports of the node. Two pods cannot have the same one, nor one that another has on every address. */
export interface HostPort {
  readonly protocol: string;
  readonly address: string;
  readonly port: number;
}

interface RawPort {
  readonly hostPort?: unknown;
  readonly hostIP?: unknown;
  readonly protocol?: unknown;
}

const everyAddress = "0.0.0.0";

export function readHostPorts(spec: RequestingSpec): HostPort[] {
  const sidecars = (spec.initContainers ?? []).filter((each) => each.restartPolicy === "Always");
  return [...(spec.containers ?? []), ...sidecars].flatMap(({ ports }) =>
    (ports ?? []).flatMap((each) => {
      const { hostPort, hostIP, protocol }: RawPort = each;
      if (typeof hostPort !== "number" || hostPort <= 0) return [];
      return [
        {
          protocol: typeof protocol === "string" && protocol !== "" ? protocol : "TCP",
          address: typeof hostIP === "string" && hostIP !== "" ? hostIP : everyAddress,
          port: hostPort,
        },
      ];
    }),
  );
}

export function findPortConflict(
  wanted: readonly HostPort[],
  used: readonly HostPort[],
): HostPort | undefined {
  return wanted.find((port) => used.some((other) => isSamePort(port, other)));
}

function isSamePort(one: HostPort, other: HostPort): boolean {
  return (
    one.port === other.port &&
    one.protocol === other.protocol &&
    (one.address === other.address || one.address === everyAddress || other.address === everyAddress)
  );
}
