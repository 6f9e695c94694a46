/**
 * The Sandbox (kubernetes-sigs/agent-sandbox) that owns a pod. The deletion of such a pod does not say why: a suspension, an expiry
 * and a drain delete it like the end of the Sandbox does. So the Sandbox itself decides, read from the API server and never from
 * a cache: while it lives, its machine hibernates.
 */
import {
  annotation,
  findSandboxOwner,
  isSandboxVmName,
  readSandboxMachine,
  readText,
  sandboxFinalizer,
  sandboxKind,
  sandboxVmName,
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
  const sandbox = await findSandboxOfMachine(client, pod, options);
  if (sandbox === "none") return "none";
  if (sandbox === "notServed") return "alive";
  return (await isLiving(client, sandbox, options)) ? "alive" : "ended";
}

/** The Sandbox whose machine it is, where neither it nor its namespace is terminating. `podName`: where it is looked for first. */
export async function findLivingSandbox(
  client: KubeClient,
  wanted: { readonly namespace: string; readonly podName: string; readonly vmName: string },
  options: Abortable,
): Promise<KubeObject | undefined> {
  const isWanted = (sandbox: KubeObject) => readSandboxMachine(sandbox) === wanted.vmName;
  const { namespace, podName } = wanted;
  const sandbox = await findSandbox(client, { namespace, name: podName, isWanted }, options);
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

/** The Sandbox that the pod's machine is of; undefined when there is none, or it is gone. */
export async function findOwnSandbox(
  client: KubeClient,
  pod: Pod,
  options: Abortable,
): Promise<KubeObject | undefined> {
  const sandbox = await findSandboxOfMachine(client, pod, options);
  return sandbox === "none" || sandbox === "notServed" ? undefined : sandbox;
}

/** The Sandbox that owns the pod, while it lives; the machine may be named after another one. */
export async function findOwningSandbox(
  client: KubeClient,
  pod: Pod,
  options: Abortable,
): Promise<KubeObject | undefined> {
  const sandbox = await findByOwner(client, pod, options);
  if (sandbox === "none" || sandbox === "notServed" || !(await isLiving(client, sandbox, options)))
    return undefined;
  return sandbox;
}

/** Before the first push: a Sandbox that is deleted while its machine is hibernated has no pod that a kubelet would hear of. */
export async function keepSandboxUntilSettled(
  client: KubeClient,
  pod: Pod,
  options: Abortable,
): Promise<void> {
  const sandbox = await findSandboxOfMachine(client, pod, options);
  if (sandbox === "none" || sandbox === "notServed") return;
  if (!sandbox) throw new Fault("conflict", "the Sandbox was deleted");
  await addFinalizer({ client, type: sandboxes, object: sandbox, finalizer: sandboxFinalizer }, options);
}

type Found = KubeObject | "notServed" | undefined;

/**
 * The end of a Sandbox removes the snapshots of its machine, and users can write owner references and annotations. So the
 * machine's name must be the one that is computed from the Sandbox's uid, or that the Sandbox was recorded to have taken over;
 * any other pod ends like one without a Sandbox.
 */
async function findSandboxOfMachine(
  client: KubeClient,
  pod: Pod,
  options: Abortable,
): Promise<Found | "none"> {
  const { namespace = "", annotations } = pod.metadata;
  const vmName = readText(annotations, annotation.vmName);
  if (!isSandboxVmName(namespace, vmName)) return "none";
  const sandbox = await findByOwner(client, pod, options);
  const isOwn = vmName === sandboxVmName(namespace, findSandboxOwner(pod)?.uid ?? "");
  if (isOwn || typeof sandbox === "string") return sandbox;
  if (!sandbox || readSandboxMachine(sandbox) !== vmName) return "none";
  return (await isOfAnotherSandbox(client, { sandbox, vmName }, options)) ? "none" : sandbox;
}

/** The record of a take-over is an annotation, which users can edit: it is not believed for a machine that another Sandbox has. */
export async function isOfAnotherSandbox(
  client: KubeClient,
  { sandbox, vmName }: { readonly sandbox: KubeObject; readonly vmName: string },
  options: Abortable,
): Promise<boolean> {
  const { namespace = "", name = "", uid } = sandbox.metadata;
  const isWanted = (each: KubeObject) => each.metadata.uid !== uid && readSandboxMachine(each) === vmName;
  return (await findSandbox(client, { namespace, name, isWanted }, options)) !== undefined;
}

async function findByOwner(client: KubeClient, pod: Pod, options: Abortable): Promise<Found | "none"> {
  const owner = findSandboxOwner(pod);
  if (!owner) return "none";
  const isWanted = ({ metadata }: KubeObject) => metadata.uid === owner.uid;
  const { namespace = "" } = pod.metadata;
  return findSandbox(client, { namespace, name: owner.name, isWanted }, options);
}

interface Wanted {
  readonly namespace: string;
  /** Where it is looked for first. */
  readonly name: string;
  readonly isWanted: (sandbox: KubeObject) => boolean;
}

/**
 * A list and not a get: for a get, "no such Sandbox" and "no such API" are both 404. Where the API is not served, nothing is known
 * of the Sandbox, so the machine is kept as of a living one. The name in an owner reference may be wrong: a Sandbox is absent
 * only when no Sandbox of the namespace is the wanted one.
 */
async function findSandbox(
  client: KubeClient,
  { namespace, name, isWanted }: Wanted,
  { signal }: Abortable,
): Promise<Found> {
  try {
    const fieldSelector = `metadata.name=${name}`;
    const named = await client.list(sandboxes, { namespace, fieldSelector, signal });
    const found = named.items.find(isWanted);
    if (found) return found;
    for await (const page of client.pages(sandboxes, { namespace, signal })) {
      const other = page.items.find(isWanted);
      if (other) return other;
    }
    return undefined;
  } catch (error) {
    if (isFault(error, "notFound")) return "notServed";
    throw error;
  }
}
