/**
 * Whether this runtime is the one that runs the machines of this node. Another `cocoon` command, or the built-in engine beside a
 * Go command, lists none of their VMs, and that must not count as "gone": the start is refused before the node is registered.
 */
import { isPodTerminal } from "@cocoon/contract";
import { Fault, type Abortable, ignoreFault } from "@cocoon/core";
import { nodes, pods, type KubeClient } from "@cocoon/kube";
import { readMachine } from "@cocoon/machine";
import type { VmRuntime } from "@cocoon/vm";

export interface KnownVmsOptions extends Abortable {
  readonly client: KubeClient;
  readonly runtime: VmRuntime;
  readonly node: string;
}

/**
 * `unavailable` when pods claim VMs, the runtime knows none of them, and the node was last registered by another engine or by a
 * kubelet that does not name its engine. The engine that registered the node last is trusted: its VMs may really be gone.
 */
export async function assertKnownVms({ client, runtime, node, signal }: KnownVmsOptions): Promise<void> {
  const { engine, version } = await runtime.describe({ signal });
  if ((await findLastEngine(client, node, signal)) === engine) return;
  const claimed = await listClaimed(client, node, signal);
  if (claimed.length === 0) return;
  const known = new Set((await runtime.list({ signal })).map((vm) => vm.id));
  if (claimed.some(({ vmId }) => known.has(vmId))) return;
  const names = claimed.map(({ vmName, vmId }) => `${vmName} (${vmId})`);
  throw new Fault(
    "unavailable",
    `pods of node ${node} claim VMs that this runtime (${engine} ${version}) does not know: ${names.slice(0, 5).join(", ")}${names.length > 5 ? ", …" : ""}. Choose the runtime that runs them with VK_RUNTIME, VK_COCOON_BIN and COCOON_ROOT_DIR; if these VMs are lost, delete their pods with --force first`,
  );
}

async function findLastEngine(
  client: KubeClient,
  name: string,
  signal: AbortSignal,
): Promise<string | undefined> {
  const node = await ignoreFault("notFound", client.get(nodes, { name }, { signal }));
  const version = node?.status?.nodeInfo?.["containerRuntimeVersion"];
  return typeof version === "string" ? version.split("://")[0] : undefined;
}

/** Machines that run here as far as their pods show. */
async function listClaimed(
  client: KubeClient,
  node: string,
  signal: AbortSignal,
): Promise<readonly { readonly vmName: string; readonly vmId: string }[]> {
  const claimed = [];
  const fieldSelector = `spec.nodeName=${node}`;
  for await (const page of client.pages(pods, { fieldSelector, limit: 500, signal }))
    for (const pod of page.items) {
      const { vm, runtime, hibernate } = readMachine(pod);
      if (vm.managed && runtime.vmId !== "" && !hibernate && !isPodTerminal(pod))
        claimed.push({ vmName: vm.vmName, vmId: runtime.vmId });
    }
  return claimed;
}
