/** Mode `sticky`: every machine's pod gets its name, its slot and its node; what cannot be reserved is refused. */
import { randomUUID } from "node:crypto";
import {
  annotation,
  findSandboxOwner,
  isDnsLabel,
  isDnsSubdomain,
  readPool,
  readText,
  sandboxVmName,
} from "@cocoon/contract";
import { Fault, isFault, getErrorMessage, toFault } from "@cocoon/core";
import { applyJsonPatch, diffJson, type JsonPatchOperation } from "@cocoon/core/json-patch";
import { isLabelValue } from "@cocoon/core/label-selector";
import { allow, allowWithPatch, type AdmissionContext } from "@cocoon/kube/admission";
import type { PendingLoads } from "../nodes/pending-loads.ts";
import { computeShapeDigest, readPodShape } from "../nodes/pod-shape.ts";
import { asItCame, tryReadNote } from "../pods/admission-note.ts";
import { readOwnerChain } from "../pods/owner-chain.ts";
import { patchPod, patchSandboxPod } from "../pods/patch-pod.ts";
import type { AdmittedPod } from "../pods/read-pod.ts";
import type { Workloads } from "../workloads.ts";
import type { ClaimRequest, Granted } from "../store/claim-request.ts";
import type { Reservations } from "../store/reservations.ts";
import { shardName } from "../store/shard.ts";
import { allowed, failed, type AdmissionResult } from "./admission-result.ts";
import type { MachinePod } from "./mutate.ts";

export interface StickyOptions {
  readonly reservations: Reservations;
  readonly pending: PendingLoads;
  readonly workloads: Workloads;
  /** Pods of CocoonSets: the operator named them. */
  readonly decideSetPod: (
    machine: MachinePod,
    context: AdmissionContext,
  ) => AdmissionResult | Promise<AdmissionResult>;
  readonly onFailure: "refuse" | "admit";
  readonly granted: (machine: MachinePod, granted: Granted) => void;
}

export function decideSticky(options: StickyOptions) {
  return (machine: MachinePod, context: AdmissionContext): AdmissionResult | Promise<AdmissionResult> => {
    const { ownerReferences } = machine.pod.metadata;
    if (ownerReferences?.some(({ kind }) => kind === "CocoonSet"))
      return options.decideSetPod(machine, context);
    const sandbox = findSandboxOwner(machine.pod);
    if (sandbox) {
      const name = sandboxVmName(machine.request.namespace, sandbox.uid);
      return allowed(allowWithPatch(patchSandboxPod(machine.pod, name)));
    }
    return reserve(machine, context, options);
  };
}

async function reserve(
  machine: MachinePod,
  context: AdmissionContext,
  options: StickyOptions,
): Promise<AdmissionResult> {
  let claim: ClaimRequest;
  try {
    claim = readClaim(machine, options);
  } catch (error) {
    return notReserved(toFault(error), options);
  }
  if (machine.request.dryRun) return dryRun(claim);
  try {
    const earlier = await recall({ machine, claim }, context, options);
    return await grant(earlier ?? { machine, claim }, context, options);
  } catch (error) {
    context.signal.throwIfAborted();
    return notReserved(toFault(error), options);
  }
}

interface Requested {
  /** The pod without what we added to it ourselves. */
  readonly machine: MachinePod;
  readonly claim: ClaimRequest;
  /** The pod with it, where it came with it. */
  readonly sent?: AdmittedPod;
}

/** What is requested when the API server sends a pod of ours again; undefined for a pod that is new to us. */
async function recall(
  { machine, claim }: Requested,
  context: AdmissionContext,
  { reservations, workloads }: StickyOptions,
): Promise<Requested | undefined> {
  const note = tryReadNote(machine.pod);
  const earlier = readText(machine.pod.metadata.annotations, annotation.reservation);
  if (!note || !claimPattern.test(earlier)) return undefined;
  const held = await reservations.recall({ ...claim, claim: earlier }, context);
  if (!held) return undefined;
  const pod = asItCame(machine.pod, note, held.entry.node);
  const original: MachinePod = { ...machine, pod, pool: readPool(pod) };
  const now = readClaim(original, { workloads });
  if (original.pool !== held.entry.pool) {
    await reservations.giveUp(held, context);
    return { machine: original, claim: now, sent: machine.pod };
  }
  const changed = computeShapeDigest(now.shape) !== note.shape;
  const again = { pin: note.pin, from: note.from, changed };
  return { machine: original, claim: { ...now, claim: earlier, again }, sent: machine.pod };
}

async function grant(
  requested: Requested,
  context: AdmissionContext,
  options: StickyOptions,
): Promise<AdmissionResult> {
  const { machine, claim } = requested;
  const { reservations, pending, granted: onGranted } = options;
  pending.expect(claim.claim, claim.shape.requests);
  try {
    const answer = await reservations.reserve(claim, context);
    if (answer.kind === "refused") return notReserved(answer.fault, options);
    const { granted } = answer;
    if (!claim.again) onGranted(machine, granted);
    const { warning } = granted.placement;
    const patch = patchFrom(requested, granted);
    return allowed(allowWithPatch(patch, warning === undefined ? {} : { warnings: [warning] }));
  } finally {
    pending.forgetExpected(claim.claim);
  }
}

function patchFrom({ machine: { pod }, claim, sent }: Requested, granted: Granted): JsonPatchOperation[] {
  const patch = patchPod(pod, granted, computeShapeDigest(claim.shape));
  return sent ? diffJson(sent, applyJsonPatch(pod, patch)) : patch;
}

function readClaim(
  { request, pod, pool }: MachinePod,
  { workloads }: Pick<StickyOptions, "workloads">,
): ClaimRequest {
  const namespace = request.namespace;
  if (!isDnsLabel(namespace)) throw new Fault("invalid", `namespace "${brief(namespace)}" is not a name`);
  if (!isLabelValue(pool) || !isDnsSubdomain(shardName(pool, 0)))
    throw new Fault("invalid", `pool "${brief(pool)}" must be lower case letters, digits, '-' and '.'`);
  const { ownerChain, podName, ordinal } = readOwnerChain(pod, {
    namespace,
    requestName: request.name,
    deploymentUid: (ns, name) => workloads.deploymentUid(ns, name),
  });
  const { owner } = ownerChain;
  if (!isDnsSubdomain(podName === "" ? owner.name : podName) || !isDnsSubdomain(owner.name))
    throw new Fault("invalid", `pod "${brief(podName)}" of "${brief(owner.name)}" has no valid name`);
  return {
    claim: claimText(request.uid),
    pool,
    ownerChain,
    podName,
    ordinal,
    shape: readPodShape(pod.spec),
    desired: () => workloads.desired(ownerChain),
    learned: { proofs: new Map() },
  };
}

const claimPattern = /^[\w-]{8,64}$/;

/** The same request, sent twice, is one claim. */
function claimText(uid: string): string {
  return claimPattern.test(uid) ? uid : randomUUID();
}

function dryRun({ ownerChain, podName }: ClaimRequest): AdmissionResult {
  const who = podName === "" ? ownerChain.owner.name : podName;
  return allowed(allow({ warnings: [`dry run: no machine was reserved for ${who}`] }));
}

function notReserved(fault: Fault, { onFailure }: StickyOptions): AdmissionResult {
  const message = `cocoon-webhook: no machine could be reserved: ${isFault(fault) ? fault.message : getErrorMessage(fault)}`;
  if (onFailure === "admit")
    return { verdict: allow({ warnings: [message.slice(0, 250)] }), result: "error", reason: "affinity" };
  const { status, reason } = fault.traits;
  return failed("affinity", message, { code: status, reason });
}

function brief(text: string): string {
  return text.slice(0, 80);
}
