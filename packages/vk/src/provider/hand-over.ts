/**
 * VMs of living Sandboxes that no pod of this node claims. A pod that is removed by force while this kubelet is away, or that is
 * collected with its node, is replaced at once, maybe on another node, and the next pod waits there for the VM that is still
 * here. So this node hibernates it. It removes nothing that was not read back from the registry first, and leaves alone what it
 * cannot ask about: a Sandbox that is not found, one whose VM another node made since, and a pod that may still come here.
 */
import {
  annotation,
  findSandboxOwner,
  isSandboxVmName,
  sandboxKind,
  sandboxNodeAnnotation,
} from "@cocoon/contract";
import { getErrorMessage, sleep, type Abortable, type Logger } from "@cocoon/core";
import { pods, type KubeClient, type KubeObject } from "@cocoon/kube";
import type { Pod } from "@cocoon/kubelet";
import type { Vm, VmRuntime } from "@cocoon/vm";
import { parseSandboxNote } from "./sandbox-holder.ts";
import { findLivingSandbox } from "./sandbox-owner.ts";
import { vmLabel } from "./vm-labels.ts";

export interface HandOverOptions extends Abortable {
  readonly client: KubeClient;
  readonly runtime: VmRuntime;
  readonly node: string;
  readonly isClaimed: (vmName: string) => boolean;
  /** Hibernates the machine of a pod that is gone. */
  readonly hibernate: (pod: Pod, options: Abortable) => Promise<void>;
  readonly log: Logger;
  readonly everyMs: number;
}

/** Until the signal ends it. */
export async function handOverSandboxes(options: HandOverOptions): Promise<void> {
  const { everyMs, log, signal } = options;
  while (!signal.aborted) {
    try {
      await handOverOnce(options);
    } catch (error) {
      if (signal.aborted) return;
      log.warn({ error: getErrorMessage(error) }, "VMs without a pod not looked through; retrying");
    }
    await sleep(everyMs, { signal }).catch(() => undefined);
  }
}

async function handOverOnce(options: HandOverOptions): Promise<void> {
  const { runtime, isClaimed, signal } = options;
  for (const vm of await runtime.list({ signal })) {
    const found = isClaimed(vm.name) ? undefined : readSandboxVm(vm);
    if (found) await handOver(options, vm, found);
  }
}

interface SandboxVm {
  readonly namespace: string;
  readonly podName: string;
  readonly vmName: string;
}

/** By its own label, which was written with the VM: the namespace in a name may be a hash. */
function readSandboxVm({ name: vmName, config: { labels } }: Vm): SandboxVm | undefined {
  const [namespace = "", podName = ""] = (labels[vmLabel.pod] ?? "").split("/");
  const isOurs = podName !== "" && isSandboxVmName(namespace, vmName);
  return isOurs ? { namespace, podName, vmName } : undefined;
}

/** The VM is of a Sandbox that lives, as far as the API server knows it: only its end may end the VM. */
export async function isOfLivingSandbox(client: KubeClient, vm: Vm, options: Abortable): Promise<boolean> {
  const found = readSandboxVm(vm);
  return found !== undefined && (await findLivingSandbox(client, found, options)) !== undefined;
}

async function handOver(options: HandOverOptions, vm: Vm, found: SandboxVm): Promise<void> {
  const { client, node, log, signal } = options;
  const sandbox = await findLivingSandbox(client, found, { signal });
  if (!sandbox || parseSandboxNote(sandbox.metadata.annotations?.[sandboxNodeAnnotation])?.node !== node)
    return;
  if (await mayComeHere(options, sandbox)) return;
  log.warn({ vm: vm.name, id: vm.id }, "no pod of this node claims this VM of a Sandbox; it is hibernated");
  try {
    await options.hibernate(buildLastPod(vm, found, { node, sandbox }), { signal });
  } catch (error) {
    if (signal.aborted) return;
    log.warn({ vm: vm.name, error: getErrorMessage(error) }, "VM of a Sandbox not hibernated; retrying");
  }
}

/** A pod of the Sandbox that is bound to this node, or to none yet: it may adopt the VM as it is. */
async function mayComeHere(
  { client, node, signal }: HandOverOptions,
  { metadata: { namespace = "", uid } }: KubeObject,
): Promise<boolean> {
  for await (const page of client.pages(pods, { namespace, limit: 500, signal }))
    for (const pod of page.items)
      if (findSandboxOwner(pod)?.uid === uid && (pod.spec?.nodeName ?? node) === node) return true;
  return false;
}

/** The pod that the VM had, as far as it is known here. It is gone: nothing that is written to it arrives. */
function buildLastPod(
  { name: vmName, config: { labels } }: Vm,
  { namespace, podName }: SandboxVm,
  { node, sandbox }: { readonly node: string; readonly sandbox: KubeObject },
): Pod {
  const { group, version, kind } = sandboxKind;
  const { name = "", uid = "" } = sandbox.metadata;
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      namespace,
      name: podName,
      uid: labels[vmLabel.uid] ?? "",
      annotations: {
        [annotation.vmName]: vmName,
        [annotation.managed]: "true",
        [annotation.generation]: labels[vmLabel.generation] ?? "0",
        [annotation.image]: labels[vmLabel.image] ?? "",
      },
      ownerReferences: [{ apiVersion: `${group}/${version}`, kind, name, uid, controller: true }],
    },
    spec: { nodeName: node, containers: [] },
  };
}
