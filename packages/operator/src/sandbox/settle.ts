/**
 * Sandboxes of kubernetes-sigs/agent-sandbox that are deleted while their machine is hibernated. They have no pod then, so no
 * kubelet hears of it: the kubelet set a finalizer before its first push, and the snapshots are settled here before the Sandbox
 * goes. While a pod is on a node, its kubelet settles them.
 */
import {
  annotation,
  findSandboxOwner,
  readText,
  sandboxFinalizer,
  sandboxKind,
  sandboxVmName,
  shouldSnapshot,
} from "@cocoon/contract";
import { ignoreFault, type Abortable, type Logger } from "@cocoon/core";
import { pods, resourceType, type KubeClient, type KubeObject, type ObjectKey } from "@cocoon/kube";
import { hasFinalizer, removeFinalizer, settled, type Outcome } from "@cocoon/kube/controller";
import type { MachineSnapshots } from "@cocoon/machine";

export interface Sandbox extends KubeObject {
  readonly spec?: {
    readonly podTemplate?: {
      readonly metadata?: { readonly annotations?: Readonly<Record<string, string>> };
    };
  };
}

export const sandboxes = resourceType<Sandbox>({ ...sandboxKind, namespaced: true });

export function needsSettling({ metadata }: KubeObject): boolean {
  return metadata.deletionTimestamp !== undefined && hasFinalizer({ metadata }, sandboxFinalizer);
}

export interface SettleParts {
  readonly client: KubeClient;
  readonly snapshots: Pick<MachineSnapshots, "settle">;
  readonly log: Logger;
}

export async function settleSandbox(
  parts: SettleParts,
  key: ObjectKey,
  options: Abortable,
): Promise<Outcome> {
  const { client, snapshots, log } = parts;
  const sandbox = await ignoreFault("notFound", client.get(sandboxes, key, options));
  if (!sandbox || !needsSettling(sandbox)) return settled;
  if (!(await isOnNode(client, sandbox, options))) {
    const { namespace = "", uid = "" } = sandbox.metadata;
    const vmName = sandboxVmName(namespace, uid);
    const keep = wantsSnapshot(sandbox);
    await snapshots.settle(vmName, { keep, purge: !keep, at: new Date() }, options);
    log.info({ sandbox: `${namespace}/${key.name}`, vm: vmName, kept: keep }, "snapshots of Sandbox settled");
  }
  await removeFinalizer({ client, type: sandboxes, object: sandbox, finalizer: sandboxFinalizer }, options);
  return settled;
}

/** A pod that is not bound to a node goes without a kubelet. */
async function isOnNode(client: KubeClient, sandbox: Sandbox, { signal }: Abortable): Promise<boolean> {
  const { namespace = "", uid } = sandbox.metadata;
  for await (const page of client.pages(pods, { namespace, signal }))
    if (page.items.some((pod) => findSandboxOwner(pod)?.uid === uid && Boolean(pod.spec?.nodeName)))
      return true;
  return false;
}

/** The pods of a Sandbox count as toolboxes; without a policy nothing outlives it. */
function wantsSnapshot({ spec }: Sandbox): boolean {
  const policy = readText(spec?.podTemplate?.metadata?.annotations, annotation.snapshotPolicy) || "never";
  return shouldSnapshot(policy, "toolbox");
}
