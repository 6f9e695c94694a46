/**
 * Sandboxes of kubernetes-sigs/agent-sandbox that are deleted while their machine is hibernated. They have no pod then, so no
 * kubelet hears of it: the kubelet set a finalizer before its first push, and the snapshots are settled here before the Sandbox
 * goes. While a pod is on a node, its kubelet settles them.
 */
import {
  annotation,
  readSandboxMachine,
  readText,
  sandboxFinalizer,
  sandboxKind,
  sandboxVmName,
  shouldSnapshot,
} from "@cocoon/contract";
import { readSandbox, type Sandbox } from "@cocoon/contract/agent-sandbox";
import { ignoreFault, type Abortable, type Logger } from "@cocoon/core";
import { pods, resourceType, type KubeClient, type KubeObject, type ObjectKey } from "@cocoon/kube";
import { hasFinalizer, removeFinalizer, settled, type Outcome } from "@cocoon/kube/controller";
import type { MachineSnapshots } from "@cocoon/machine";
import type { CustomObject } from "../kinds.ts";

export type SandboxObject = CustomObject;

export const sandboxes = resourceType<SandboxObject>({ ...sandboxKind, namespaced: true });

const parsed = new WeakMap<SandboxObject, Sandbox>();

/** Objects of a cache are read many times, and never change. */
export function readSandboxObject(object: SandboxObject): Sandbox {
  const known = parsed.get(object);
  if (known) return known;
  const sandbox = readSandbox(object);
  parsed.set(object, sandbox);
  return sandbox;
}

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
  const vmName = readSandboxMachine(sandbox);
  if (await isOfAnother(client, { sandbox, vmName }, options))
    log.warn(
      { sandbox: `${key.namespace}/${key.name}`, vm: vmName },
      "machine of another Sandbox left alone",
    );
  else if (!(await isOnNode(client, { sandbox, vmName }, options))) {
    const { namespace = "" } = sandbox.metadata;
    const keep = wantsSnapshot(sandbox);
    await snapshots.settle(vmName, { namespace, keep, purge: !keep, at: new Date() }, options);
    log.info({ sandbox: `${namespace}/${key.name}`, vm: vmName, kept: keep }, "snapshots of Sandbox settled");
  }
  await removeFinalizer({ client, type: sandboxes, object: sandbox, finalizer: sandboxFinalizer }, options);
  return settled;
}

interface Settling {
  readonly sandbox: SandboxObject;
  readonly vmName: string;
}

/** The record of a take-over is an annotation, which users can edit: it ends no machine that another Sandbox has. */
async function isOfAnother(
  client: KubeClient,
  { sandbox, vmName }: Settling,
  { signal }: Abortable,
): Promise<boolean> {
  const { namespace = "", uid = "" } = sandbox.metadata;
  if (vmName === sandboxVmName(namespace, uid)) return false;
  for await (const page of client.pages(sandboxes, { namespace, signal }))
    if (page.items.some((each) => each.metadata.uid !== uid && readSandboxMachine(each) === vmName))
      return true;
  return false;
}

/** By the machine's name: a pod that outlives its Sandbox keeps the machine. One that is not bound to a node goes without a kubelet. */
async function isOnNode(
  client: KubeClient,
  { sandbox, vmName }: Settling,
  { signal }: Abortable,
): Promise<boolean> {
  const { namespace = "" } = sandbox.metadata;
  for await (const page of client.pages(pods, { namespace, signal }))
    for (const { metadata, spec } of page.items)
      if (readText(metadata.annotations, annotation.vmName) === vmName && spec?.nodeName) return true;
  return false;
}

/** The pods of a Sandbox count as toolboxes; without a policy nothing outlives it. */
function wantsSnapshot({ spec }: SandboxObject): boolean {
  const { podTemplate } = (spec ?? {}) as { podTemplate?: { metadata?: KubeObject["metadata"] } };
  const policy = readText(podTemplate?.metadata?.annotations, annotation.snapshotPolicy) || "never";
  return shouldSnapshot(policy, "toolbox");
}
