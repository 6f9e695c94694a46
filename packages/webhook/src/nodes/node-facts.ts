/** A node as placement sees it, read once when the cache takes it in. */
import { nodeLabel } from "@cocoon/contract";
import type { KubeObject, Node } from "@cocoon/kube";
import { readNodeSupply, type NodeSupply } from "@cocoon/kube/scheduling";

export interface NodeFacts extends KubeObject {
  readonly metadata: {
    readonly name: string;
    readonly uid: string;
    readonly resourceVersion: string;
    readonly labels: Readonly<Record<string, string>>;
  };
  readonly pool: string;
  readonly ready: boolean;
  /** Nothing runs there any more: an administrator took the node out of service. */
  readonly fenced: boolean;
  readonly supply: NodeSupply;
}

const outOfService = "node.kubernetes.io/out-of-service";

export function readNodeFacts(object: KubeObject): NodeFacts {
  const node = object as Node;
  const { name = "", uid = "", resourceVersion = "", labels = {} } = node.metadata;
  const supply = readNodeSupply(node);
  return {
    metadata: { name, uid, resourceVersion, labels },
    pool: labels[nodeLabel.pool] ?? "",
    ready:
      node.status?.conditions?.some(({ type, status }) => type === "Ready" && status === "True") ?? false,
    fenced: supply.taints.some(({ key }) => key === outOfService),
    supply,
  };
}
