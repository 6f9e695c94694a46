/** A node as placement sees it, read once when the cache takes it in. */
import { nodeLabel } from "@cocoon/contract";
import type { KubeObject, Node, Taint } from "@cocoon/kube";
import { readAmounts, type Amounts } from "./amounts.ts";

export interface NodeFacts extends KubeObject {
  readonly metadata: {
    readonly name: string;
    readonly uid: string;
    readonly resourceVersion: string;
    readonly labels: Readonly<Record<string, string>>;
  };
  readonly pool: string;
  readonly ready: boolean;
  readonly cordoned: boolean;
  /** Its machines are known to be dead: somebody took it out of service. */
  readonly fenced: boolean;
  readonly taints: readonly Taint[];
  readonly allocatable: Amounts;
}

const outOfService = "node.kubernetes.io/out-of-service";

export function readNodeFacts(object: KubeObject): NodeFacts {
  const node = object as Node;
  const { name = "", uid = "", resourceVersion = "", labels = {} } = node.metadata;
  const taints = node.spec?.taints ?? [];
  return {
    metadata: { name, uid, resourceVersion, labels },
    pool: labels[nodeLabel.pool] ?? "",
    ready:
      node.status?.conditions?.some(({ type, status }) => type === "Ready" && status === "True") ?? false,
    cordoned: node.spec?.unschedulable ?? false,
    fenced: taints.some(({ key }) => key === outOfService),
    taints,
    allocatable: readAmounts(node.status?.allocatable),
  };
}
