/**
 * The Sandbox (kubernetes-sigs/agent-sandbox) that owns a pod. The deletion of such a pod does not say why: a suspension, an expiry
 * and a drain delete it like the end of the Sandbox does. So the Sandbox itself decides, read from the API server and never from
 * a cache: while it lives, its machine hibernates.
 */
import {
  annotation,
  findSandboxOwner,
  readText,
  sandboxFinalizer,
  sandboxKind,
  sandboxVmName,
  type SandboxReference,
} from "@cocoon/contract";
import { Fault, isFault, type Abortable } from "@cocoon/core";
import { namespaces, resourceType, type KubeClient, type KubeObject } from "@cocoon/kube";
import { addFinalizer } from "@cocoon/kube/controller";
import type { Pod } from "@cocoon/kubelet";

export const sandboxes = resourceType<KubeObject>({ ...sandboxKind, namespaced: true });

/** `none`: the pod belongs to no Sandbox. */
export type SandboxState = "none" | "alive" | "ended";

/** Throws when the API server did not answer: the machine is kept until it does. */
export async function findSandboxState(
  client: KubeClient,
  pod: Pod,
  options: Abortable,
): Promise<SandboxState> {
  const owner = findOwnerOfMachine(pod);
  if (!owner) return "none";
  const { namespace = "" } = pod.metadata;
  const sandbox = await findSandbox(client, { namespace, owner }, options);
  if (sandbox === "notServed") return "alive";
  return (await isLiving(client, sandbox, options)) ? "alive" : "ended";
}

/** The Sandbox, where it is there and neither it nor its namespace is terminating. */
export async function findLivingSandbox(
  client: KubeClient,
  wanted: { readonly namespace: string; readonly owner: SandboxReference },
  options: Abortable,
): Promise<KubeObject | undefined> {
  const sandbox = await findSandbox(client, wanted, options);
  if (!sandbox || sandbox === "notServed") return undefined;
  return (await isLiving(client, sandbox, options)) ? sandbox : undefined;
}

async function isLiving(
  client: KubeClient,
  sandbox: KubeObject | undefined,
  options: Abortable,
): Promise<boolean> {
  if (!sandbox || sandbox.metadata.deletionTimestamp) return false;
  const namespace = await client.get(namespaces, { name: sandbox.metadata.namespace ?? "" }, options);
  return namespace.metadata.deletionTimestamp === undefined;
}

/** The Sandbox that the pod's machine is named after; undefined when there is none, or it is gone. */
export async function findOwnSandbox(
  client: KubeClient,
  pod: Pod,
  options: Abortable,
): Promise<KubeObject | undefined> {
  const owner = findOwnerOfMachine(pod);
  const { namespace = "" } = pod.metadata;
  const sandbox = owner && (await findSandbox(client, { namespace, owner }, options));
  return sandbox === "notServed" ? undefined : sandbox;
}

/** Before the first push: a Sandbox that is deleted while its machine is hibernated has no pod that a kubelet would hear of. */
export async function keepSandboxUntilSettled(
  client: KubeClient,
  pod: Pod,
  options: Abortable,
): Promise<void> {
  const owner = findOwnerOfMachine(pod);
  if (!owner) return;
  const { namespace = "" } = pod.metadata;
  const sandbox = await findSandbox(client, { namespace, owner }, options);
  if (sandbox === "notServed") return;
  if (!sandbox) throw new Fault("conflict", "the Sandbox was deleted");
  await addFinalizer({ client, type: sandboxes, object: sandbox, finalizer: sandboxFinalizer }, options);
}

/**
 * The end of a Sandbox removes the snapshots of its machine, and users can write owner references and annotations. So the
 * machine's name must be the one that is computed from the Sandbox's uid; any other pod ends like one without a Sandbox.
 */
function findOwnerOfMachine(pod: Pod): SandboxReference | undefined {
  const owner = findSandboxOwner(pod);
  if (!owner) return undefined;
  const { namespace = "", annotations } = pod.metadata;
  return readText(annotations, annotation.vmName) === sandboxVmName(namespace, owner.uid) ? owner : undefined;
}

/**
 * A list and not a get: for a get, "no such Sandbox" and "no such API" are both 404. Where the API is not served, nothing is known
 * of the Sandbox, so the machine is kept as of a living one. The name in an owner reference may be wrong: a Sandbox is absent
 * only when no Sandbox of the namespace has the uid.
 */
async function findSandbox(
  client: KubeClient,
  { namespace, owner }: { readonly namespace: string; readonly owner: SandboxReference },
  { signal }: Abortable,
): Promise<KubeObject | "notServed" | undefined> {
  const isOwner = ({ metadata }: KubeObject) => metadata.uid === owner.uid;
  try {
    const fieldSelector = `metadata.name=${owner.name}`;
    const named = await client.list(sandboxes, { namespace, fieldSelector, signal });
    const found = named.items.find(isOwner);
    if (found) return found;
    for await (const page of client.pages(sandboxes, { namespace, signal })) {
      const other = page.items.find(isOwner);
      if (other) return other;
    }
    return undefined;
  } catch (error) {
    if (isFault(error, "notFound")) return "notServed";
    throw error;
  }
}
