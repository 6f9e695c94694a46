/**
 * A Sandbox that took over a pod whose own Sandbox was deleted without it. The machine keeps its name, which is that of the old
 * Sandbox; it is recorded on the new one, and from then on its life is that Sandbox's: a pod of it takes the name on.
 */
import {
  annotation,
  findSandboxOwner,
  readSandboxMachine,
  sandboxMachineAnnotation,
  sandboxNodeAnnotation,
  sandboxVmName,
} from "@cocoon/contract";
import { Fault, type Abortable } from "@cocoon/core";
import type { KubeClient, KubeObject } from "@cocoon/kube";
import type { Pod } from "@cocoon/kubelet";
import type { Vm } from "@cocoon/vm";
import type { PodMachine } from "../pod-machine.ts";
import { formatSandboxNote } from "./sandbox-holder.ts";
import { findOwningSandbox, isOfAnotherSandbox, sandboxes } from "./sandbox-owner.ts";
import type { StepContext } from "./step-context.ts";

interface Looked {
  readonly pod: Pod;
  readonly machine: PodMachine;
  readonly vm: Vm | undefined;
}

/** The Sandbox that may take the machine over. Not one that has a machine of its own, nor one of a machine that another has. */
export async function findTakeOver(
  client: KubeClient,
  { pod, machine, vm }: Looked,
  options: Abortable,
): Promise<KubeObject | undefined> {
  const { vmName } = machine.vm;
  const { namespace } = machine;
  const owner = findSandboxOwner(pod);
  if (!owner || !machine.ofSandbox || vmName === sandboxVmName(namespace, owner.uid)) return undefined;
  if (!vm || machine.runtime.vmId !== vm.id) return undefined;
  const sandbox = await findOwningSandbox(client, pod, options);
  if (!sandbox || sandbox.metadata.annotations?.[sandboxNodeAnnotation]) return undefined;
  return (await isOfAnotherSandbox(client, { sandbox, vmName }, options)) ? undefined : sandbox;
}

/** The node is noted with it, as for a VM that is made. */
export async function takeOver(
  { client, tracked, node, log }: StepContext,
  { machine, vm }: Omit<Looked, "pod">,
  { signal }: Abortable,
): Promise<void> {
  const sandbox = await findTakeOver(client, { pod: tracked.writer.pod, machine, vm }, { signal });
  if (!sandbox) throw new Fault("conflict", "the Sandbox that owns the pod changed");
  const { namespace, name = "", uid, resourceVersion } = sandbox.metadata;
  const { vmName } = machine.vm;
  const annotations = {
    [sandboxMachineAnnotation]: `${uid}/${vmName}`,
    [sandboxNodeAnnotation]: formatSandboxNote(node),
  };
  const body = { metadata: { uid, resourceVersion, annotations } };
  await client.patch(sandboxes, { key: { namespace, name }, patch: { type: "merge", body } }, { signal });
  log.info({ sandbox: name, uid }, "Sandbox took the machine over");
}

/** The machine that the Sandbox of a new pod took over; undefined when it has the one that is named after it. */
export async function findTakenOver(
  client: KubeClient,
  pod: Pod,
  options: Abortable,
): Promise<string | undefined> {
  const sandbox = await findOwningSandbox(client, pod, options);
  const vmName = sandbox && readSandboxMachine(sandbox);
  if (!vmName || vmName === pod.metadata.annotations?.[annotation.vmName]) return undefined;
  return (await isOfAnotherSandbox(client, { sandbox, vmName }, options)) ? undefined : vmName;
}
