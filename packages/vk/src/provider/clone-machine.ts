/** Machines that continue from a snapshot: of the registry, of a directory, of another machine, or their own. */
import { realpath, stat } from "node:fs/promises";
import { isAbsolute, normalize, sep } from "node:path";
import {
  annotation,
  formatImageReference,
  isWindowsPod,
  latestTag,
  tryParseImageReference,
} from "@cocoon/contract";
import { Fault, getErrorMessage, toFault, type Abortable, ignoreFault } from "@cocoon/core";
import type { HibernatedSnapshot } from "@cocoon/machine";
import type { CloneOptions, RestoreMode, RuntimeDescription, Snapshot, Vm } from "@cocoon/vm";
import { computeGrowth, readWantedSize } from "../machine-size.ts";
import { dropLocalSnapshot } from "../node-snapshots.ts";
import type { PodMachine } from "../pod-machine.ts";
import { assertBootable, bootImage, buildCommonSpec } from "./boot-image.ts";
import { passLastCheck } from "./last-check.ts";
import { unlistHibernated } from "./snapshot-list.ts";
import { tryCloneLazily, tryRestoreLazily } from "./restore-lazily.ts";
import { assertSourceAllowed } from "./source-access.ts";
import { showProgress } from "./show-progress.ts";
import { requireSnapshots, type StepContext } from "./step-context.ts";
import { vmLabel } from "./vm-labels.ts";

/**
 * Clones what the image names. Mode `clone` is also what the API server fills in where a set leaves the mode out: an image
 * that is certainly no snapshot boots instead (decision 0061).
 */
export async function cloneSnapshot(
  context: StepContext,
  machine: PodMachine,
  options: Abortable,
): Promise<Vm> {
  const { snapshots, client, runtime, restoreMode, description } = context;
  const source = tryParseSource(machine.vm.image);
  if (!source)
    throw new Fault(
      "invalid",
      `${annotation.image}: "${machine.vm.image.slice(0, 200)}" does not name a snapshot; mode clone needs one`,
    );
  const { repository, reference, local } = source;
  const found =
    snapshots && (await ignoreFault("invalid", snapshots.inRegistry.find(repository, reference, options)));
  if (snapshots && !found) {
    await assertBootable(context, machine, options);
    context.emit({
      type: "Normal",
      reason: "ModeResolved",
      message: `${machine.vm.image} is an image: it boots`,
    });
    return bootImage(context, machine, options);
  }
  const use = { namespace: machine.namespace, source: repository, owner: found?.namespace ?? "" };
  await assertSourceAllowed(client, use, options);
  const lazy = found && (await tryCloneLazily(context, { found, repository, name: local, machine }, options));
  if (lazy) return lazy;
  const keepOlder = description.can.cloneStandsAlone === false;
  const snapshot = snapshots
    ? await snapshots.ensureLocal({ repository, reference, keepOlder }, local, options)
    : await runtime.snapshots.inspect(local, options);
  return cloneFrom(context, { snapshot, machine, restoreMode, grows: true }, options);
}

/** The snapshot that an image names in the registry, and its name on the node. */
function tryParseSource(
  image: string,
): { readonly repository: string; readonly reference: string; readonly local: string } | undefined {
  const parsed = tryParseImageReference(image);
  if (parsed?.kind !== "registry") return undefined;
  const { digest, tag = latestTag, repository } = parsed;
  const local =
    digest || tag !== latestTag
      ? formatImageReference({ kind: "registry", repository, tag: digest ? digest.slice(7, 19) : tag })
      : repository;
  // Local names have at most 63 characters.
  const short = local.length <= 63 ? local : local.slice(-63).replace(/^[^a-z0-9]+/, "");
  return { repository, reference: digest ?? tag, local: short };
}

/** Its own, and where clones read their source also the base that it was cloned from, of whichever digest. */
export function needsSnapshot(
  { vm: { vmName, image } }: Pick<PodMachine, "vm">,
  name: string,
  { can }: Pick<RuntimeDescription, "can">,
): boolean {
  if (name === vmName || can.cloneStandsAlone !== false) return name === vmName;
  const base = tryParseSource(image)?.local;
  return base !== undefined && (name === base || name.startsWith(`${base.slice(0, 50)}-`));
}

/** The source must be on this node; its label names its owner. */
export async function fork(
  context: StepContext,
  { source, machine }: { readonly source: string; readonly machine: PodMachine },
  options: Abortable,
): Promise<Vm> {
  const { client, runtime } = context;
  const vm = await runtime.inspect(source, options);
  const owner = vm.config.labels[vmLabel.pod]?.split("/")[0] ?? "";
  await assertSourceAllowed(client, { namespace: machine.namespace, source: vm.name, owner }, options);
  const { storageBytes } = computeSizes(context, vm.config);
  const grown = storageBytes === undefined ? {} : { storageBytes };
  return runtime.fork({ ...buildCommonSpec(context, machine), ...grown, source: vm.name }, options);
}

function computeSizes({ tracked, description }: StepContext, config: Snapshot["config"]) {
  return computeGrowth(readWantedSize(tracked.writer.pod, description), config, description.can.cloneSizes);
}

interface CloneRequest {
  readonly snapshot: Snapshot;
  readonly machine: PodMachine;
  /** How memory is read; a snapshot that is removed while the VM runs must be copied. */
  readonly restoreMode: RestoreMode;
  readonly grows?: boolean;
  readonly restoredFrom?: string;
}

async function cloneFrom(context: StepContext, request: CloneRequest, options: CloneOptions): Promise<Vm> {
  const { snapshot, machine, restoredFrom } = request;
  assertHypervisor(context, snapshot, machine);
  const common = buildCommonSpec(context, machine);
  const labels = restoredFrom ? { ...common.labels, [vmLabel.restoredFrom]: restoredFrom } : common.labels;
  const sizes = request.grows ? computeSizes(context, snapshot.config) : {};
  // Windows does not tolerate memory that arrives late.
  const restoreMode = isWindowsPod(context.tracked.writer.pod) ? "copy" : request.restoreMode;
  return context.runtime.clone({ ...common, ...sizes, labels, snapshot: snapshot.id, restoreMode }, options);
}

/** The built-in engine runs every backend that a pod may ask for; an external one has two, which read only their own files. */
function assertHypervisor(
  { description }: StepContext,
  { name, hypervisor }: Snapshot,
  { vm: { backend } }: PodMachine,
): void {
  const external = backend === "" ? ["cloud-hypervisor", "firecracker"] : [backend];
  const accepted = description.hypervisor === "qemu" ? ["qemu"] : external;
  if (accepted.includes(hypervisor)) return;
  throw new Fault(
    "preconditionFailed",
    `snapshot ${name} was saved by ${hypervisor}, but this machine continues only from ${accepted.join(" or ")}; change ${annotation.backend}, or choose a node that runs ${hypervisor}`,
  );
}

interface Restore {
  readonly snapshot: HibernatedSnapshot;
  readonly machine: PodMachine;
}

/** Its own snapshot is dropped while it runs, so an engine whose clones read their source copies the memory. */
export async function restore(
  context: StepContext,
  { snapshot, machine }: Restore,
  { signal }: Abortable,
): Promise<Vm> {
  const { metrics, tracked } = context;
  const options = { signal, beforeRun: buildLastCheck(context, { snapshot, machine }) };
  metrics.hibernate_evidence_total.inc({ verdict: "proven" });
  const { digest: restoredFrom } = snapshot;
  const { labels, ...common } = buildCommonSpec(context, machine);
  const spec = { ...common, labels: { ...labels, [vmLabel.restoredFrom]: restoredFrom } };
  const lazy = await tryRestoreLazily(context, { snapshot, machine, spec }, options);
  tracked.trace.note({ "wake.lazy": lazy !== undefined, "snapshot.digest": restoredFrom });
  if (lazy) await unlistHibernated(context, options);
  const vm = lazy ?? (await restoreWhole(context, { snapshot, machine }, options));
  const proof = {
    [annotation.restoredFrom]: snapshot.snapshotId,
    [annotation.restoredDigest]: restoredFrom,
    [annotation.vmId]: vm.id,
    [annotation.loading]: lazy ? "true" : null,
  };
  await tracked.writer.write(proof, options);
  return vm;
}

function buildLastCheck(
  context: StepContext,
  { snapshot: { digest }, machine: { vm } }: Restore,
): (options: Abortable) => Promise<void> {
  const { inRegistry } = requireSnapshots(context);
  const claim = { digest, node: context.node };
  const check = {
    verify: (options: Abortable) => inRegistry.verifyClaim(vm.vmName, claim, options),
    nowMs: () => performance.now(),
  };
  return (options) => passLastCheck(check, options);
}

async function restoreWhole(
  context: StepContext,
  { snapshot, machine }: Restore,
  options: CloneOptions,
): Promise<Vm> {
  const { emit, description } = context;
  const name = machine.vm.vmName;
  let local;
  try {
    const source = { repository: name, reference: snapshot.digest };
    await using progress = showProgress(context, "creating", options);
    const { onProgress } = progress;
    const pulled = requireSnapshots(context).ensureLocal(source, name, { ...options, onProgress });
    [local] = await Promise.all([pulled, unlistHibernated(context, options)]);
  } catch (error) {
    emit({ type: "Warning", reason: "WakePullFailed", message: getErrorMessage(error) });
    throw error;
  }
  const restoreMode = description.can.cloneStandsAlone === false ? "copy" : context.restoreMode;
  const restoredFrom = snapshot.digest;
  return cloneFrom(context, { snapshot: local, machine, restoreMode, restoredFrom }, options);
}

/** The import is removed at once, so its memory is copied. */
export async function cloneFromDirectory(
  context: StepContext,
  { directory, machine }: { readonly directory: string; readonly machine: PodMachine },
  options: Abortable,
): Promise<Vm> {
  const { runtime, cloneRoots, metrics } = context;
  const path = await canonicalDirectory(directory, cloneRoots);
  const name = `dir-${machine.vm.vmName}`;
  await dropLocalSnapshot(runtime, name, options);
  const snapshot = await runtime.snapshots.importDirectory(path, { name, ...options });
  try {
    const vm = await cloneFrom(context, { snapshot, machine, restoreMode: "copy", grows: true }, options);
    metrics.clone_from_dir_total.inc();
    return vm;
  } finally {
    await dropLocalSnapshot(runtime, name, options);
  }
}

/** A pod names a directory of the host, so only below roots that the host's owner allows. */
async function canonicalDirectory(directory: string, roots: readonly string[]): Promise<string> {
  const refuse = (why: string) => new Fault("invalid", `clone-from-dir "${directory.slice(0, 200)}": ${why}`);
  if (roots.length === 0) throw refuse("not allowed on this node; set VK_CLONE_FROM_DIR_ROOTS");
  if (!isAbsolute(directory) || normalize(directory) !== directory)
    throw refuse("must be an absolute path without . and ..");
  let real: string;
  try {
    real = await realpath(directory);
    if (!(await stat(real)).isDirectory()) throw refuse("is not a directory");
  } catch (error) {
    throw toFault(error, `clone-from-dir ${directory}`);
  }
  const allowed = await Promise.all(roots.map((root) => realpath(root).catch(() => undefined)));
  if (!allowed.some((root) => root !== undefined && real.startsWith(root + sep)))
    throw refuse(`is not below any of ${roots.join(", ")}`);
  return real;
}
