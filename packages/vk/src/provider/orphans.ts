/**
 * Start-up: VMs that no pod of this node claims. Pods themselves are adopted by the ordinary way: their VM has their
 * name. A list that failed is never an empty list: the start fails instead.
 */
import { getErrorMessage, type Abortable, type Logger } from "@cocoon/core";
import { pods, type KubeClient } from "@cocoon/kube";
import { readMachine, type MachinePod } from "@cocoon/machine";
import type { Vm, VmRuntime } from "@cocoon/vm";
import type { VkMetrics } from "../metrics.ts";
import { dropLocalSnapshot, findLocalSnapshot } from "../node-snapshots.ts";
import { isOfLivingSandbox } from "./hand-over.ts";
import { vmLabel } from "./vm-labels.ts";

export const orphanPolicies = ["alert", "destroy", "keep"] as const;
export type OrphanPolicy = (typeof orphanPolicies)[number];

export interface AdoptOptions extends Abortable {
  readonly client: KubeClient;
  readonly runtime: VmRuntime;
  readonly node: string;
  readonly policy: OrphanPolicy;
  readonly metrics: VkMetrics;
  readonly log: Logger;
}

/** A pod, as far as the claim to a VM goes. */
interface Claim {
  readonly vmName: string;
  readonly node: string;
  /** The machine was brought up there. */
  readonly lives: boolean;
  readonly generation: number;
  /** Id of the snapshot that it was woken from. */
  readonly restoredFrom: string;
}

/** A VM that no pod of this node claims. */
interface Orphan extends Pick<Vm, "name" | "state"> {
  readonly generation: number;
  /** The local snapshot that is exactly where the VM stands: it is paused since. */
  readonly exactSnapshotId: string | undefined;
}

type OrphanAction = "nothing" | "alert" | "destroy" | "freeze" | "release";

/** Names that this program gives; VMs of other programs on the host are left alone. */
const ours = /^vk-/;

/**
 * What to do with a VM that no pod of this node claims. A machine that lives on another node must not run here too.
 * When it went on there from the very snapshot that this VM stands still at, and not from an older generation, this
 * one holds nothing of its own and is let go of; else it is frozen, and its owner decides.
 */
export function planOrphan(vm: Orphan, elsewhere: readonly Claim[], policy: OrphanPolicy): OrphanAction {
  if (!ours.test(vm.name)) return "nothing";
  const successor = elsewhere.find((claim) => claim.vmName === vm.name && claim.lives);
  if (successor) {
    const wentOn = vm.exactSnapshotId !== undefined && successor.restoredFrom === vm.exactSnapshotId;
    if (wentOn && successor.generation >= vm.generation) return "release";
    return vm.state === "running" ? "freeze" : "alert";
  }
  const wakesElsewhere = elsewhere.some((claim) => claim.vmName === vm.name);
  if (policy === "destroy") return wakesElsewhere ? "alert" : "destroy";
  return policy === "keep" ? "nothing" : "alert";
}

export async function dealWithOrphans(options: AdoptOptions): Promise<void> {
  const { client, runtime, node, metrics, signal } = options;
  const [claims, vms] = await Promise.all([
    listClaims(client, { fieldSelector: `spec.nodeName=${node}`, signal }),
    runtime.list({ signal }),
  ]);
  const claimed = new Set(claims.map((claim) => claim.vmName));
  const orphans = vms.filter((vm) => !claimed.has(vm.name));
  metrics.reconcile_adopt_by_name_total.inc(vms.length - orphans.length);
  if (orphans.length === 0) return;
  const everywhere = await listClaims(client, { signal });
  const elsewhere = everywhere.filter((claim) => claim.node !== node);
  for (const vm of orphans) {
    const orphan = await describeOrphan(vm, options);
    const action = planOrphan(orphan, elsewhere, options.policy);
    const isKept = action === "destroy" && (await isOfLivingSandbox(client, vm, { signal }));
    await deal(vm, isKept ? "alert" : action, options);
  }
}

async function describeOrphan(vm: Vm, { runtime, signal }: AdoptOptions): Promise<Orphan> {
  const local = vm.state === "paused" ? await findLocalSnapshot(runtime, vm.name, { signal }) : undefined;
  return {
    name: vm.name,
    state: vm.state,
    generation: Number(vm.config.labels[vmLabel.generation] ?? 0),
    exactSnapshotId: local?.vmId === vm.id ? local.id : undefined,
  };
}

async function deal(
  vm: Vm,
  action: OrphanAction,
  { runtime, metrics, log, signal }: AdoptOptions,
): Promise<void> {
  if (action === "nothing") return;
  metrics.orphan_vm_total.inc();
  try {
    if (action === "freeze") await runtime.pause(vm.id, { signal });
    if (action === "destroy" || action === "release") await runtime.remove(vm.id, { force: true, signal });
    if (action === "release") await dropLocalSnapshot(runtime, vm.name, { signal });
    log.warn({ vm: vm.name, id: vm.id, action }, "no pod of this node claims this VM");
  } catch (error) {
    log.error({ vm: vm.name, id: vm.id, action, error: getErrorMessage(error) }, "orphan VM not dealt with");
    if (action === "freeze") throw error;
  }
}

async function listClaims(
  client: KubeClient,
  options: Abortable & { readonly fieldSelector?: string },
): Promise<readonly Claim[]> {
  const claims: Claim[] = [];
  for await (const page of client.pages(pods, { ...options, limit: 500 }))
    for (const pod of page.items) {
      const claim = readClaim(pod);
      if (claim) claims.push(claim);
    }
  return claims;
}

function readClaim(pod: MachinePod): Claim | undefined {
  const { vm, node, runtime, lifecycle, generation, restoredFrom } = readMachine(pod);
  const lives = runtime.vmId !== "" || lifecycle.state === "ready";
  return vm.vmName === "" ? undefined : { vmName: vm.vmName, node, lives, generation, restoredFrom };
}

/**
 * A VM whose pod disappeared without a requested deletion. It is paused when its machine runs on another node; else it
 * continues and is reported. It is never removed: the pod may exist again, and then adopts it.
 */
export async function freezeOrphan(options: Omit<AdoptOptions, "policy">, vmName: string): Promise<void> {
  const { client, runtime, node, metrics, signal } = options;
  const vm = (await runtime.list({ signal })).find((each) => each.name === vmName);
  if (!vm) return;
  const claims = await listClaims(client, { signal });
  const elsewhere = claims.some((claim) => claim.vmName === vmName && claim.node !== node && claim.lives);
  if (elsewhere && vm.state === "running") return deal(vm, "freeze", { ...options, policy: "alert" });
  metrics.orphan_vm_total.inc();
}
