/**
 * `/mutate`: pods. In mode `sticky` the pod of a machine gets a reservation; in mode `gate` only pods of CocoonSets that
 * the operator created are admitted. A pod that has nothing to do with machines passes untouched.
 */
import { annotation, hostTaint, isMachinePod, legacyAnnotation, readPool } from "@cocoon/contract";
import { getErrorMessage, ignoreFault, isFault, type Logger } from "@cocoon/core";
import { allowWithPatch, type AdmissionContext, type AdmissionRequest } from "@cocoon/kube/admission";
import type { IdentityWriters } from "../identity/identity-writers.ts";
import { readPodSources } from "../identity/machine-sources.ts";
import { findChangedIdentity } from "../identity/protected-annotations.ts";
import type { SourceAccess } from "../identity/source-access.ts";
import { keepOffPatch, toleratesEverything } from "../pods/keep-off.ts";
import { readPod, type AdmittedPod } from "../pods/read-pod.ts";
import { allowed, denied, failed, skipped, type AdmissionResult } from "./admission-result.ts";

export interface MutateOptions {
  readonly decideMachine: (
    machine: MachinePod,
    context: AdmissionContext,
  ) => AdmissionResult | Promise<AdmissionResult>;
  readonly sourceAccess: SourceAccess;
  readonly writers: Pick<IdentityWriters, "includes">;
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
  return (
    request: AdmissionRequest,
    context: AdmissionContext,
  ): AdmissionResult | Promise<AdmissionResult> => {
    if (request.kind.kind !== "Pod") return skipped("kind");
    const pod = tryReadPod(request, options.log);
    if (!pod) return skipped("decode");
    if (request.operation === "UPDATE") return decideUpdate({ request, pod }, context, options);
    if (pod.metadata.annotations?.[mirrorAnnotation] !== undefined) return skipped("not_cocoon");
    const requested = { request, pod };
    if (readPodSources(pod).length === 0 && !isNamedWithoutToleration(pod))
      return decideNew(requested, context, options);
    return checkIdentity(requested, context, options).then(
      (refusal) => refusal ?? decideNew(requested, context, options),
    );
  };
}

function decideNew(
  { request, pod }: RequestedPod,
  context: AdmissionContext,
  options: MutateOptions,
): AdmissionResult | Promise<AdmissionResult> {
  if (!isMachinePod(pod)) return decideOther(pod, options);
  return options.decideMachine({ request, pod, pool: readPool(pod) }, context);
}

interface RequestedPod {
  readonly request: AdmissionRequest;
  readonly pod: AdmittedPod;
}

function isNamedWithoutToleration(pod: AdmittedPod): boolean {
  const { annotations } = pod.metadata;
  const name = annotations?.[annotation.vmName] ?? annotations?.[legacyAnnotation.vmName];
  return name !== undefined && !isMachinePod(pod);
}

/** The refusal of a pod that would reach a machine which is not its own; undefined when it may go on. */
async function checkIdentity(
  { request, pod }: RequestedPod,
  { signal }: AdmissionContext,
  { sourceAccess, writers }: MutateOptions,
): Promise<AdmissionResult | undefined> {
  const { namespace, userInfo: user } = request;
  try {
    if (isNamedWithoutToleration(pod) && !(await writers.includes(user, { signal })))
      return denied(
        `cocoon-webhook: annotation ${annotation.vmName} names a machine, but the pod lacks toleration ${hostTaint.key}, so no machine is reserved for it; add the toleration or remove the annotation`,
      );
    const violations = await sourceAccess({ namespace, user, sources: readPodSources(pod) }, { signal });
    if (violations.length === 0) return undefined;
    return denied(`cocoon-webhook: ${violations.map(({ message }) => message).join("; ")}`);
  } catch (error) {
    signal.throwIfAborted();
    return cannotVerify(error);
  }
}

function cannotVerify(error: unknown): AdmissionResult {
  const message = `cocoon-webhook: cannot verify the machine's identity: ${getErrorMessage(error)}`;
  return failed("identity", message, { code: 503, reason: "ServiceUnavailable" });
}

function tryReadPod(request: AdmissionRequest, log: Logger): AdmittedPod | undefined {
  try {
    return readPod(request.object);
  } catch (error) {
    if (!isFault(error, "invalid")) throw error;
    log.warn({ uid: request.uid, error: getErrorMessage(error) }, "pod cannot be read, left unchanged");
    return undefined;
  }
}

function decideOther(pod: AdmittedPod, { keepOff }: MutateOptions): AdmissionResult {
  if (!keepOff || !toleratesEverything(pod)) return skipped("not_cocoon");
  return allowed(allowWithPatch(keepOffPatch(pod)));
}

/** Neither a toleration nor an identity that is written later may be a way around the rules for new pods. */
async function decideUpdate(
  { request, pod }: RequestedPod,
  { signal }: AdmissionContext,
  { writers }: MutateOptions,
): Promise<AdmissionResult> {
  const before = ignoreFault("invalid", () => readPod(request.oldObject));
  if (isMachinePod(pod) && (!before || !isMachinePod(before)))
    return denied(
      `cocoon-webhook: toleration ${hostTaint.key} cannot be added to an existing pod: it would become a machine without ${annotation.vmName}; create the pod with it`,
    );
  const changed = findChangedIdentity(before?.metadata.annotations, pod.metadata.annotations);
  if (changed.length === 0) return isMachinePod(pod) ? allowed() : skipped("not_cocoon");
  try {
    if (await writers.includes(request.userInfo, { signal })) return allowed();
  } catch (error) {
    signal.throwIfAborted();
    return cannotVerify(error);
  }
  return denied(
    `cocoon-webhook: annotation ${changed.join(", ")} identifies a machine and is written by Cocoon only; delete the pod and create another one instead`,
  );
}
