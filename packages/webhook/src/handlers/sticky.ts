/** Mode `sticky`: every machine's pod gets its name, its slot and its node; what cannot be reserved is refused. */
import { randomUUID } from "node:crypto";
import { isDnsLabel, isDnsSubdomain } from "@cocoon/contract";
import { Fault, isFault, messageOf, toFault } from "@cocoon/core";
import { isLabelValue } from "@cocoon/core/label-selector";
import { allow, allowWithPatch, type AdmissionContext } from "@cocoon/kube/admission";
import type { PendingLoads } from "../nodes/pending-loads.ts";
import { readPodShape } from "../nodes/pod-shape.ts";
import { lineageOfPod } from "../pods/lineage.ts";
import { patchPod } from "../pods/patch-pod.ts";
import type { Workloads } from "../workloads.ts";
import type { ClaimRequest, Granted } from "../store/claim-request.ts";
import type { Reservations } from "../store/reservations.ts";
import { shardName } from "../store/shard.ts";
import { allowed, failed, type Judgement } from "./judgement.ts";
import type { MachinePod } from "./mutate.ts";

export interface StickyOptions {
  readonly reservations: Reservations;
  readonly pending: PendingLoads;
  readonly workloads: Workloads;
  /** Pods of CocoonSets: the operator named them. */
  readonly judgeSetPod: (machine: MachinePod, context: AdmissionContext) => Judgement | Promise<Judgement>;
  readonly onFailure: "refuse" | "admit";
  readonly granted: (machine: MachinePod, granted: Granted) => void;
}

export function judgeSticky(options: StickyOptions) {
  return (machine: MachinePod, context: AdmissionContext): Judgement | Promise<Judgement> => {
    const { ownerReferences } = machine.pod.metadata;
    if (ownerReferences?.some(({ kind }) => kind === "CocoonSet"))
      return options.judgeSetPod(machine, context);
    return reserve(machine, context, options);
  };
}

async function reserve(
  machine: MachinePod,
  context: AdmissionContext,
  options: StickyOptions,
): Promise<Judgement> {
  const { reservations, pending } = options;
  let claim: ClaimRequest;
  try {
    claim = readClaim(machine, options);
  } catch (error) {
    return notReserved(toFault(error), options);
  }
  if (machine.request.dryRun) return dryRun(claim);
  pending.expect(claim.claim, claim.shape.requests);
  try {
    const answer = await reservations.reserve(claim, context);
    if (answer.kind === "refused") return notReserved(answer.fault, options);
    options.granted(machine, answer.granted);
    const { warning } = answer.granted.placement;
    const patch = patchPod(machine.pod, answer.granted);
    return allowed(allowWithPatch(patch, warning === undefined ? {} : { warnings: [warning] }));
  } catch (error) {
    context.signal.throwIfAborted();
    return notReserved(toFault(error), options);
  } finally {
    pending.forgetExpected(claim.claim);
  }
}

function readClaim({ request, pod, pool }: MachinePod, { workloads }: StickyOptions): ClaimRequest {
  const namespace = request.namespace;
  if (!isDnsLabel(namespace)) throw new Fault("invalid", `namespace "${brief(namespace)}" is not a name`);
  if (!isLabelValue(pool) || !isDnsSubdomain(shardName(pool, 0)))
    throw new Fault("invalid", `pool "${brief(pool)}" must be lower case letters, digits, '-' and '.'`);
  const { lineage, podName, ordinal } = lineageOfPod(pod, {
    namespace,
    requestName: request.name,
    deploymentUid: (ns, name) => workloads.deploymentUid(ns, name),
  });
  const { owner } = lineage;
  if (!isDnsSubdomain(podName === "" ? owner.name : podName) || !isDnsSubdomain(owner.name))
    throw new Fault("invalid", `pod "${brief(podName)}" of "${brief(owner.name)}" has no valid name`);
  return {
    claim: claimText(request.uid),
    pool,
    lineage,
    podName,
    ordinal,
    shape: readPodShape(pod.spec),
    desired: () => workloads.desired(lineage),
    learned: { proofs: new Map() },
  };
}

/** The same request, sent twice, is one claim. */
function claimText(uid: string): string {
  return /^[\w-]{8,64}$/.test(uid) ? uid : randomUUID();
}

function dryRun({ lineage, podName }: ClaimRequest): Judgement {
  const who = podName === "" ? lineage.owner.name : podName;
  return allowed(allow({ warnings: [`dry run: no machine was reserved for ${who}`] }));
}

function notReserved(fault: Fault, { onFailure }: StickyOptions): Judgement {
  const message = `cocoon-webhook: no machine could be reserved: ${isFault(fault) ? fault.message : messageOf(fault)}`;
  if (onFailure === "admit")
    return { verdict: allow({ warnings: [message.slice(0, 250)] }), result: "error", reason: "affinity" };
  const { status, reason } = fault.traits;
  return failed("affinity", message, { code: status, reason });
}

function brief(text: string): string {
  return text.slice(0, 80);
}
