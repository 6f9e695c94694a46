/**
 * PodSnapshots: snapshots of a machine that have a name of their own. They are tags beside `hibernate`: making one lets the
 * machine continue, and a machine that is set back to one keeps what it was hibernated in under another name.
 */
import { annotation, findSandboxOwner, podSnapshotTag, tryReadPodSnapshotTag } from "@cocoon/contract";
import { Fault, type Abortable } from "@cocoon/core";
import type { Vm } from "@cocoon/vm";
import { dropLocalSnapshot } from "../node-snapshots.ts";
import { readPodMachine } from "../pod-machine.ts";
import { keepSandboxUntilSettled } from "./sandbox-owner.ts";
import { requireSnapshots, type StepContext } from "./step-context.ts";
import type { StepOf } from "./step.ts";

/** Of the local snapshot while it is pushed; the end of a machine's name is what no other has. */
function getLocalName(vmName: string): string {
  return `ps-${vmName.slice(-50)}`;
}

export async function saveNamed(
  context: StepContext,
  { vmId, name, record }: StepOf<"saveNamed"> & { readonly record: Vm | undefined },
  options: Abortable,
): Promise<void> {
  const { runtime, tracked, client, log } = context;
  const machine = readPodMachine(tracked.writer.pod);
  const { vmName, image: baseImage } = machine.vm;
  const localName = getLocalName(vmName);
  await keepSandboxUntilSettled(client, tracked.writer.pod, options);
  await dropLocalSnapshot(runtime, localName, options);
  try {
    await runtime.snapshots.save(vmId, { name: localName, ...options });
    const { digest } = await requireSnapshots(context).push({
      vmName,
      localName,
      namespace: machine.namespace,
      tag: podSnapshotTag(name),
      baseImage,
      restoredFrom: "",
      vmId: record?.id ?? "",
      ...options,
    });
    log.info({ snapshot: name, digest }, "snapshot of the running machine pushed");
    await tracked.writer.write({ [annotation.snapshotTaken]: `${name}@${digest}` }, options);
  } finally {
    await dropLocalSnapshot(runtime, localName, options).catch(() => undefined);
  }
}

/** May be repeated: what is done already is seen in the registry. */
export async function rewind(context: StepContext, name: string, options: Abortable): Promise<void> {
  const { tracked, emit } = context;
  const { vm, namespace } = readPodMachine(tracked.writer.pod);
  const { vmName } = vm;
  const { inRegistry } = requireSnapshots(context);
  const tag = podSnapshotTag(name);
  const wanted = await inRegistry.findDigest(vmName, tag, options);
  if (wanted === undefined)
    throw new Fault("notFound", `PodSnapshot ${name} of ${vmName} is not in the registry`);
  const current = await inRegistry.findHibernatedDigest(vmName, options);
  if (current !== undefined && current !== wanted)
    await inRegistry.release(vmName, { at: new Date(), namespace, digest: current }, options);
  if (current !== wanted) await inRegistry.adopt(vmName, { tag, namespace }, options);
  await tracked.writer.write({ [annotation.rewoundTo]: name }, options);
  emit({ type: "Normal", reason: "Rewound", message: `starts from PodSnapshot ${name}` });
}

/** Written before the VM exists: a kubelet that is killed in between cannot leave it out. */
export async function noteContained(context: StepContext, digest: string, options: Abortable): Promise<void> {
  const { tracked } = context;
  if (!findSandboxOwner(tracked.writer.pod)) return; // only their pods have such clients
  const { vm } = readPodMachine(tracked.writer.pod);
  const stored = await requireSnapshots(context).inRegistry.list(vm.vmName, options);
  const named = stored.flatMap(({ tag, digest: each }) => {
    const name = tryReadPodSnapshotTag(tag);
    return name === undefined ? [] : [{ name, isOrigin: each === digest }];
  });
  // Set back to one of them: later ones are not part of it.
  const [origin] = named.filter(({ isOrigin }) => isOrigin);
  const names = origin ? [origin.name] : named.map(({ name }) => name);
  if (names.length > 0)
    await tracked.writer.write({ [annotation.restoredSnapshots]: names.join(",") }, options);
}
