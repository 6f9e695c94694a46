/** Nodes without a host behind them: registered, ready, with a lease that is renewed as a kubelet would. */
import { nodeLabel } from "@cocoon/contract";
import { isFault, sleep } from "@cocoon/core";
import { leases, namespaces, nodes, type KubeConnection, type Node } from "@cocoon/kube";

export interface FakeNodesOptions {
  readonly connection: KubeConnection;
  readonly pool: string;
  readonly nodeNames: readonly string[];
  /** Then no controller creates the namespace of the leases. */
  readonly withoutControllers: boolean;
}

const heartbeatMs = 8_000;
const leaseNamespace = "kube-node-lease";

/** Until disposed of; then the nodes are deleted. */
export async function startFakeNodes(options: FakeNodesOptions): Promise<AsyncDisposable> {
  const { connection, nodeNames } = options;
  const ending = new AbortController();
  const { signal } = ending;
  if (options.withoutControllers) await ensureLeaseNamespace(connection, signal);
  for (const name of nodeNames) await register(name, options, signal);
  const beating = heartbeat(options, signal);
  return {
    [Symbol.asyncDispose]: async () => {
      ending.abort();
      await beating;
      const quiet = { signal: AbortSignal.timeout(10_000) };
      for (const name of nodeNames) await connection.delete(nodes, { name }, quiet).catch(() => undefined);
    },
  };
}

async function register(
  name: string,
  { connection, pool }: FakeNodesOptions,
  signal: AbortSignal,
): Promise<void> {
  const node: Node = {
    metadata: { name, labels: { "kubernetes.io/hostname": name, [nodeLabel.pool]: pool } },
    spec: { taints: [{ key: "virtual-kubelet.io/provider", value: "cocoon", effect: "NoSchedule" }] },
  };
  const made = await connection.create(nodes, node, { signal });
  const amounts = { cpu: "4000", memory: "64Ti", pods: "100000", "ephemeral-storage": "64Ti" };
  const now = new Date().toISOString();
  const times = { lastHeartbeatTime: now, lastTransitionTime: now };
  const conditions = [{ type: "Ready", status: "True", reason: "Up", message: "", ...times }];
  const status = { capacity: amounts, allocatable: amounts, conditions };
  const patch = { type: "merge", body: { status } } as const;
  await connection.patch(nodes, { key: { name }, patch }, { signal, subresource: "status" });
  const owner = { apiVersion: "v1", kind: "Node", name, uid: made.metadata.uid ?? "" };
  await connection.create(
    leases,
    {
      metadata: { namespace: leaseNamespace, name, ownerReferences: [owner] },
      spec: { holderIdentity: name, leaseDurationSeconds: 40, renewTime: microNow() },
    },
    { signal },
  );
}

async function ensureLeaseNamespace(connection: KubeConnection, signal: AbortSignal): Promise<void> {
  try {
    await connection.create(namespaces, { metadata: { name: leaseNamespace } }, { signal });
  } catch (error) {
    if (!isFault(error, "alreadyExists")) throw error;
  }
}

async function heartbeat({ connection, nodeNames }: FakeNodesOptions, signal: AbortSignal): Promise<void> {
  while (await sleep(heartbeatMs, { signal }))
    for (const name of nodeNames) {
      const patch = { type: "merge", body: { spec: { renewTime: microNow() } } } as const;
      const key = { namespace: leaseNamespace, name };
      await connection.patch(leases, { key, patch }, { signal }).catch(() => undefined);
    }
}

function microNow(): string {
  return new Date().toISOString().replace("Z", "000Z");
}
