/**
 * `/mutate`: pods. In mode `sticky` a machine's pod gets a reservation; in mode `gate` only pods of CocoonSets, made by
 * the operator, are let in. Everything that is no machine passes untouched.
 */
import { annotation, hostTaint, isMachinePod, poolOf } from "@cocoon/contract";
import { isFault, messageOf, type Logger } from "@cocoon/core";
import { allow, allowWithPatch, type AdmissionContext, type AdmissionRequest } from "@cocoon/kube/admission";
import { readPod, type AdmittedPod } from "../pods/read-pod.ts";
import { keepOffPatch, toleratesEverything } from "../pods/keep-off.ts";
import { allowed, denied, skipped, type Judgement } from "./judgement.ts";

export interface MutateOptions {
  /** What happens to a machine's pod. */
  readonly judgeMachine: (machine: MachinePod, context: AdmissionContext) => Judgement | Promise<Judgement>;
  /** Pods that tolerate every taint are kept off VM hosts. */
  readonly keepOff: boolean;
  readonly log: Logger;
}

export interface MachinePod {
  readonly request: AdmissionRequest;
  readonly pod: AdmittedPod;
  readonly pool: string;
}

const mirrorAnnotation = "kubernetes.io/config.mirror";

export function mutatePods(options: MutateOptions) {
  return (request: AdmissionRequest, context: AdmissionContext): Judgement | Promise<Judgement> => {
    if (request.kind.kind !== "Pod") return skipped("kind");
    const pod = tryReadPod(request, options.log);
    if (!pod) return skipped("decode");
    if (request.operation === "UPDATE") return judgeUpdate(request, pod);
    if (!isMachinePod(pod)) return judgeOther(pod, options);
    if (pod.metadata.annotations?.[mirrorAnnotation] !== undefined) return skipped("not_cocoon");
    return options.judgeMachine({ request, pod, pool: poolOf(pod) }, context);
  };
}

function tryReadPod(request: AdmissionRequest, log: Logger): AdmittedPod | undefined {
  try {
    return readPod(request.object);
  } catch (error) {
    if (!isFault(error, "invalid")) throw error;
    log.warn({ uid: request.uid, error: messageOf(error) }, "pod cannot be read, left alone");
    return undefined;
  }
}

function judgeOther(pod: AdmittedPod, { keepOff }: MutateOptions): Judgement {
  if (!keepOff || !toleratesEverything(pod)) return skipped("not_cocoon");
  return allowed(allowWithPatch(keepOffPatch(pod)));
}

/** Tolerations may be added to a pod later: that must not be a way around the rules for new ones. */
function judgeUpdate(request: AdmissionRequest, pod: AdmittedPod): Judgement {
  if (!isMachinePod(pod)) return skipped("not_cocoon");
  const before = request.oldObject;
  const wasMachine = before !== undefined && tolerates(before);
  if (wasMachine) return allowed(allow());
  return denied(
    `cocoon-webhook: toleration ${hostTaint.key} cannot be added to an existing pod: it would become a machine without ${annotation.vmName}; create the pod with it`,
  );
}

function tolerates(object: Readonly<Record<string, unknown>>): boolean {
  try {
    return isMachinePod(readPod(object));
  } catch (error) {
    if (isFault(error, "invalid")) return false;
    throw error;
  }
}
