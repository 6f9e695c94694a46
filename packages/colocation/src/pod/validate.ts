/** `/validate-pod`: groups of rules in order; the first group that refuses decides. */
import { type AdmissionHandler, type AdmissionRequest, type Verdict, allow } from "@cocoon/kube/admission";
import type { Gates } from "../gates.ts";
import {
  evaluate,
  evaluateNow,
  getReviewedObject,
  getOldObject,
  handleResource,
  type HandledResource,
  type RulePolicy,
} from "../handlers.ts";
import { reservePodAnnotation } from "../keys.ts";
import type { Refusal } from "../rules.ts";
import type { ClusterView } from "../view.ts";
import {
  colocationRules,
  deviceRules,
  quotaMembershipRules,
  findQuotaName,
  reservationFit,
} from "./rules.ts";
import type { EnhancedRules } from "./enhanced-rules.ts";
import { readPod, type PodReading } from "./read-pod.ts";

export interface QuotaAdmission {
  /** Takes the pod's share of the quota, or returns why not. A dry run takes nothing. */
  admit(candidate: {
    readonly pod: PodReading;
    readonly quota: string;
    readonly requestUid: string;
    readonly dryRun: boolean;
    readonly signal: AbortSignal;
  }): Promise<string | undefined>;
}

export interface PodValidatorOptions {
  readonly view: ClusterView;
  readonly gates: Gates;
  readonly policy: RulePolicy;
  readonly enhanced: EnhancedRules;
  readonly admission: QuotaAdmission;
  readonly timed?: <T>(plugin: string, operation: string, work: () => T) => T;
}

const podKind: HandledResource = { resource: "pods", kind: "Pod" };

export function podValidator(options: PodValidatorOptions): AdmissionHandler {
  return handleResource(podKind, (request, context) => {
    if (request.operation === "CONNECT") return allow();
    const pod = readPod(getReviewedObject(request, podKind));
    const old = request.operation === "UPDATE" ? readPod(getOldObject(request, podKind)) : undefined;
    const first = evaluateNow(immediateGroups({ request, pod, old }, options), options.policy);
    if (first.kind === "deny" || !needsLaterRules(request, options.gates)) return first;
    return withLater(
      first,
      evaluate(laterGroups({ request, pod, old }, options, context.signal), options.policy),
    );
  });
}

interface Reviewed {
  readonly request: AdmissionRequest;
  readonly pod: PodReading;
  readonly old: PodReading | undefined;
}

type Groups = readonly (() => Iterable<Refusal>)[];

function immediateGroups({ request, pod, old }: Reviewed, options: PodValidatorOptions): Groups {
  const { gates, view } = options;
  const group = timedGroups(request, options);
  const groups = [
    group("ClusterReservation", () => reservePod(pod)),
    group("ClusterColocationProfile", () => colocationRules(pod, old, gates)),
    group("QuotaMetaChecker", () => quotaMembershipRules({ pod, old }, view.quotas(), gates)),
  ];
  // With quota admission on, devices and the rest come after it: see laterGroups.
  if (needsLaterRules(request, gates)) return groups;
  return [...groups, ...lastGroups({ request, pod, old }, options)];
}

function timedGroups(
  { operation }: AdmissionRequest,
  { timed = (_plugin, _operation, work) => work() }: PodValidatorOptions,
): (plugin: string, rules: () => Iterable<Refusal>) => () => Iterable<Refusal> {
  return (plugin, rules) => () => timed(plugin, operation, () => [...rules()]);
}

function lastGroups({ request, pod }: Reviewed, options: PodValidatorOptions): Groups {
  const { gates, enhanced } = options;
  const group = timedGroups(request, options);
  const namespace = pod.namespace || request.namespace;
  return [
    ...(gates.ValidatePodDeviceResource ? [group("DeviceResource", () => deviceRules(pod))] : []),
    ...(gates.EnablePodEnhancedValidator
      ? [group("EnhancedValidation", () => enhanced.check({ ...pod, namespace }))]
      : []),
  ];
}

function needsLaterRules({ operation }: AdmissionRequest, gates: Gates): boolean {
  if (operation === "DELETE") return false;
  if (gates.ReservationFit && operation === "CREATE") return true;
  return gates.EnableQuotaAdmission && (operation === "CREATE" || gates.EnableQuotaAdmissionOnUpdate);
}

/** The quota comes last of all: what it takes is taken, so nothing may refuse the pod afterwards. */
function laterGroups(
  reviewed: Reviewed,
  options: PodValidatorOptions,
  signal: AbortSignal,
): (() => Iterable<Refusal> | AsyncIterable<Refusal>)[] {
  const { request, pod } = reviewed;
  const { gates, view } = options;
  return [
    ...lastGroups(reviewed, options),
    ...(gates.ReservationFit && request.operation === "CREATE" ? [() => reservationFit(pod, view)] : []),
    ...(gates.EnableQuotaAdmission ? [() => quotaRule(reviewed, options, signal)] : []),
  ];
}

async function* quotaRule(
  { request, pod, old }: Reviewed,
  { admission, gates, view }: PodValidatorOptions,
  signal: AbortSignal,
): AsyncGenerator<Refusal> {
  const tree = view.quotas();
  const member = (each: PodReading) =>
    findQuotaName({ ...each, namespace: each.namespace || request.namespace }, tree, gates);
  const quota = member(pod);
  if (old && (!gates.EnableQuotaAdmissionOnUpdate || member(old) === quota)) return;
  const message = await admission.admit({
    pod,
    quota,
    requestUid: request.uid,
    dryRun: request.dryRun,
    signal,
  });
  if (message !== undefined) yield { rule: "quota-admission", message };
}

async function withLater(first: Verdict, later: Promise<Verdict>): Promise<Verdict> {
  const verdict = await later;
  const warnings = [...(first.warnings ?? []), ...(verdict.warnings ?? [])];
  return warnings.length === 0 ? verdict : { ...verdict, warnings };
}

function* reservePod({ annotations }: PodReading): Generator<Refusal> {
  if (Object.hasOwn(annotations, reservePodAnnotation))
    yield {
      rule: "reserve-pod",
      message: `annotations.${reservePodAnnotation}: Forbidden: cannot set in annotations`,
    };
}
