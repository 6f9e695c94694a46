/** The pod of one machine. Pure; spec fragments are cloned, never shared between pods. */
import {
  annotation,
  apiVersion,
  hostTaint,
  label,
  legacyLabel,
  machineContainer,
  nodeLabel,
  writeVmRuntime,
  writeVmSpec,
  type CocoonSet,
} from "@cocoon/contract";
import { tryParseQuantity } from "@cocoon/core/quantity";
import type { Pod, PodSpec, Toleration } from "@cocoon/kube";
import type { HibernateReason } from "@cocoon/machine";
import { canBeService } from "../network/service.ts";
import { templateHash } from "./drift.ts";
import { getSetKey, memberKey, type Member } from "./members.ts";

/** Where a pod may or should run. */
export type Placement =
  | { readonly kind: "anywhere" }
  | { readonly kind: "required"; readonly node: string }
  | { readonly kind: "preferred"; readonly node: string };

export interface PodOptions {
  readonly placement: Placement;
  /** Start from tag `hibernate`. */
  readonly restore: boolean;
  /** The machine sleeps from the start, for this reason. */
  readonly sleep: HibernateReason | "";
  /** Carry the keys of the older API as well. */
  readonly legacyKeys: boolean;
  /** Start from this image instead of the spec's. */
  readonly image?: string;
}

const placeholderImage = "ghcr.io/cocoonstack/placeholder:latest";

const tolerations: readonly Toleration[] = [
  { key: hostTaint.key, operator: "Exists" },
  // Without seconds: a machine is not evicted because its node is silent for a while.
  { key: "node.kubernetes.io/not-ready", operator: "Exists", effect: "NoExecute" },
  { key: "node.kubernetes.io/unreachable", operator: "Exists", effect: "NoExecute" },
];

export function buildPod(set: CocoonSet, member: Member, options: PodOptions): Pod {
  const { namespace, set: name } = getSetKey(set);
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      name: member.podName,
      namespace,
      labels: buildLabels(name, member, options),
      annotations: buildAnnotations(set, member, options),
      ownerReferences: [
        {
          apiVersion,
          kind: "CocoonSet",
          name,
          uid: set.metadata.uid ?? "",
          controller: true,
          blockOwnerDeletion: true,
        },
      ],
    },
    spec: buildPodSpec(set, member, options.placement),
  };
}

function buildLabels(set: string, member: Member, { legacyKeys }: PodOptions): Record<string, string> {
  const role = member.role;
  const slot = String(memberKey(member));
  return {
    [label.set]: set,
    [label.role]: role,
    [label.slot]: slot,
    [label.appName]: set,
    ...(legacyKeys
      ? { [legacyLabel.set]: set, [legacyLabel.role]: role, [legacyLabel.slot]: slot, [legacyLabel.app]: set }
      : {}),
  };
}

function buildAnnotations(set: CocoonSet, member: Member, options: PodOptions): Record<string, string> {
  const { legacyKeys, restore, sleep, image } = options;
  const vm = image === undefined ? member.vm : { ...member.vm, image, mode: "clone" };
  return {
    ...writeVmSpec(vm, { legacyKeys }),
    ...staticRuntime(member, legacyKeys),
    [annotation.generation]: String(set.metadata.generation ?? 0),
    [annotation.templateHash]: templateHash(set, member),
    ...(restore ? { [annotation.restoreFromHibernate]: "true" } : {}),
    ...(sleep ? { [annotation.hibernate]: "true", [annotation.hibernateReason]: sleep } : {}),
  };
}

function staticRuntime(member: Member, legacyKeys: boolean): Record<string, string> {
  if (member.role !== "toolbox" || member.spec.mode !== "static") return {};
  const { staticIP = "", staticVMID = "", vncPort = 0 } = member.spec;
  return writeVmRuntime({ ip: staticIP, vmId: staticVMID, vncPort }, { legacyKeys });
}

function buildPodSpec(set: CocoonSet, member: Member, placement: Placement): PodSpec {
  const { nodePool, snapshotCompatibilityClass } = set.spec;
  const agent = member.role === "toolbox" ? undefined : member.spec;
  const affinity = buildAffinity(placement);
  return {
    terminationGracePeriodSeconds: 1,
    ...buildNames(set, member),
    nodeSelector: {
      [nodeLabel.pool]: nodePool,
      ...(snapshotCompatibilityClass ? { [nodeLabel.snapshotCpuClass]: snapshotCompatibilityClass } : {}),
    },
    tolerations: structuredClone(tolerations),
    ...(affinity ? { affinity } : {}),
    // A guest has no use for the token of a pod unless the spec names an account.
    ...(agent?.serviceAccountName
      ? { serviceAccountName: agent.serviceAccountName }
      : { automountServiceAccountToken: false }),
    enableServiceLinks: false,
    containers: [
      {
        name: machineContainer,
        image: placeholderImage,
        resources: buildResources(member),
        ...(agent?.envFrom ? { envFrom: structuredClone(agent.envFrom) } : {}),
      },
    ],
  };
}

/** With the set's Service the machine resolves as POD.SET.NAMESPACE.svc. */
function buildNames(set: CocoonSet, { podName }: Member): Pick<PodSpec, "hostname" | "subdomain"> {
  const { set: name } = getSetKey(set);
  return canBeService(name) && podName.length <= 63 ? { hostname: podName, subdomain: name } : {};
}

function buildResources({ spec }: Member): {
  readonly requests?: Record<string, string>;
  readonly limits?: Record<string, string>;
} {
  const requests = texts(spec.resources?.requests);
  const limits = texts(spec.resources?.limits);
  const storage = spec.storage === undefined ? undefined : tryParseQuantity(spec.storage);
  if (storage && storage.nanos > 0n) {
    requests["ephemeral-storage"] = String(spec.storage);
    limits["ephemeral-storage"] = String(spec.storage);
  }
  return {
    ...(Object.keys(requests).length > 0 ? { requests } : {}),
    ...(Object.keys(limits).length > 0 ? { limits } : {}),
  };
}

function texts(amounts: Readonly<Record<string, string | number>> | undefined): Record<string, string> {
  return Object.fromEntries(Object.entries(amounts ?? {}).map(([name, amount]) => [name, String(amount)]));
}

const hostnameLabel = "kubernetes.io/hostname";

function buildAffinity(placement: Placement): Record<string, unknown> | undefined {
  if (placement.kind === "anywhere") return undefined;
  const term = {
    matchExpressions: [{ key: hostnameLabel, operator: "In", values: [placement.node] }],
  };
  const rule =
    placement.kind === "required"
      ? { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [term] } }
      : { preferredDuringSchedulingIgnoredDuringExecution: [{ weight: 100, preference: term }] };
  return { nodeAffinity: rule };
}

interface HostnameTerm {
  readonly matchExpressions?: readonly { readonly key?: string; readonly values?: readonly string[] }[];
}

/** The node that a pod must run on by its affinity; "" when it may choose. */
export function requiredNode(pod: Pod): string {
  const affinity = pod.spec?.affinity as
    | {
        readonly nodeAffinity?: {
          readonly requiredDuringSchedulingIgnoredDuringExecution?: {
            readonly nodeSelectorTerms?: readonly HostnameTerm[];
          };
        };
      }
    | undefined;
  const terms =
    affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms ?? [];
  const expressions = terms.flatMap((term) => term.matchExpressions ?? []);
  return expressions.find((each) => each.key === hostnameLabel)?.values?.[0] ?? "";
}
