/**
 * Which node has, or may have, the VM of a Sandbox. A pod that is force-deleted, or whose node is lost, is replaced at once, and the
 * new pod may be on another node while the VM still runs: an empty machine must not be booted in its place. Each node notes itself
 * on the Sandbox before it makes the VM, and publishes the names of its VMs on its Node.
 */
import { nodeAnnotation, sandboxNodeAnnotation } from "@cocoon/contract";
import { ignoreFault, type Abortable } from "@cocoon/core";
import { isConditionTrue } from "@cocoon/core/conditions";
import { nodes, type KubeClient, type Node } from "@cocoon/kube";
import type { Pod } from "@cocoon/kubelet";
import { findOwnSandbox, sandboxes } from "./sandbox-owner.ts";

/** A node publishes its VMs more often than that: then its list is newer than the note. */
const publishedMs = 60_000;

interface Asking {
  readonly client: KubeClient;
  readonly pod: Pod;
  /** The node that asks. */
  readonly node: string;
}

/** Another node whose VM is not proven gone; undefined when there is none. */
export async function findSandboxHolder(
  { client, pod, node }: Asking,
  vmName: string,
  options: Abortable,
): Promise<string | undefined> {
  const sandbox = await findOwnSandbox(client, pod, options);
  const noted = parseSandboxNote(sandbox?.metadata.annotations?.[sandboxNodeAnnotation]);
  if (!noted || noted.node === node) return undefined;
  const holder = await ignoreFault("notFound", client.get(nodes, { name: noted.node }, options));
  if (!holder || isFenced(holder)) return undefined;
  if (listMachines(holder).includes(vmName)) return noted.node;
  const isNewer = Date.now() - noted.at > publishedMs && isConditionTrue(holder.status?.conditions, "Ready");
  return isNewer ? undefined : noted.node;
}

/** Before the VM is made: a node that asks later finds this one, whatever becomes of the pod. */
export async function noteSandboxNode({ client, pod, node }: Asking, { signal }: Abortable): Promise<void> {
  const sandbox = await findOwnSandbox(client, pod, { signal });
  if (!sandbox) return;
  const annotations = { [sandboxNodeAnnotation]: formatSandboxNote(node) };
  const { namespace, name = "", uid } = sandbox.metadata;
  const patch = { type: "merge", body: { metadata: { uid, annotations } } } as const;
  await client.patch(sandboxes, { key: { namespace, name }, patch }, { signal });
}

/** The VM is gone and left nothing: any node may boot. */
export async function clearSandboxNode({ client, pod, node }: Asking, { signal }: Abortable): Promise<void> {
  const sandbox = await findOwnSandbox(client, pod, { signal });
  if (parseSandboxNote(sandbox?.metadata.annotations?.[sandboxNodeAnnotation])?.node !== node || !sandbox)
    return;
  const { namespace, name = "", uid, resourceVersion } = sandbox.metadata;
  const body = { metadata: { uid, resourceVersion, annotations: { [sandboxNodeAnnotation]: null } } };
  await client.patch(sandboxes, { key: { namespace, name }, patch: { type: "merge", body } }, { signal });
}

export function formatSandboxNote(node: string): string {
  return `${node}@${new Date().toISOString()}`;
}

/** The node that made the VM last, and when. */
export function parseSandboxNote(
  text: string | undefined,
): { readonly node: string; readonly at: number } | undefined {
  const [node = "", time = ""] = (text ?? "").split("@");
  return node === "" ? undefined : { node, at: Date.parse(time) || 0 };
}

function isFenced({ spec }: Node): boolean {
  return spec?.taints?.some(({ key }) => key === "node.kubernetes.io/out-of-service") ?? false;
}

function listMachines({ metadata }: Node): readonly string[] {
  return [nodeAnnotation.machines, nodeAnnotation.frozenMachines].flatMap((key) =>
    (metadata.annotations?.[key] ?? "").split(","),
  );
}
