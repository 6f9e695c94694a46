/** The node's heartbeat: a Lease that is renewed every quarter of its duration. */
import { isFault, type Abortable } from "@cocoon/core";
import { leases, type KubeClient, type Lease } from "@cocoon/kube";

const namespace = "kube-node-lease";
const leaseDurationSeconds = 40;

/** MicroTime: six fractional digits. */
function microTime(date: Date): string {
  return date.toISOString().replace("Z", "000Z");
}

export interface LeaseTarget {
  readonly client: KubeClient;
  readonly nodeName: string;
  readonly nodeUid: string;
}

/** One write per renewal; the first one, and one after somebody removed the lease, creates it. */
export async function renewNodeLease(
  { client, nodeName, nodeUid }: LeaseTarget,
  { signal }: Abortable,
): Promise<void> {
  const spec = { holderIdentity: nodeName, leaseDurationSeconds, renewTime: microTime(new Date()) };
  const ownerReferences = [{ apiVersion: "v1", kind: "Node", name: nodeName, uid: nodeUid }];
  const key = { namespace, name: nodeName };
  try {
    await client.patch(
      leases,
      { key, patch: { type: "merge", body: { metadata: { ownerReferences }, spec } } },
      { signal },
    );
  } catch (error) {
    if (!isFault(error, "notFound")) throw error;
    const lease: Lease = { metadata: { ...key, ownerReferences }, spec };
    await client.create(leases, lease, { signal });
  }
}
