/**
 * Hibernations between the older API and the current one.
 *
 *   older                           current
 *   metadata.name (free)            the name of the pod: one object per pod
 *   podName                         podRef.name
 *   action hibernate | wake         desire Hibernate | Wake
 *   message, lastTransitionTime     condition Ready
 *   snapshotRef                     (none; the registry and the recorded digest prove the snapshot)
 */
import { findCondition, type Condition } from "../conditions.ts";
import {
  hibernationCondition,
  hibernationPhases,
  type CocoonHibernationSpec,
  type CocoonHibernationStatus,
  type HibernationPhase,
} from "../hibernation.ts";
import type { HibernationAction } from "../hibernation-words.ts";
import { apiVersion } from "../keys.ts";
import type {
  LegacyAction,
  LegacyHibernation,
  LegacyHibernationSpec,
  LegacyHibernationStatus,
} from "./hibernation.ts";

const desireOf: Readonly<Record<LegacyAction, HibernationAction>> = { hibernate: "Hibernate", wake: "Wake" };
const actionOf: Readonly<Record<HibernationAction, LegacyAction>> = { Hibernate: "hibernate", Wake: "wake" };

export interface ConvertedHibernation {
  readonly apiVersion: typeof apiVersion;
  readonly kind: "CocoonHibernation";
  readonly metadata: { readonly name: string; readonly namespace?: string };
  readonly spec: CocoonHibernationSpec;
}

export function fromLegacyHibernation({ metadata, spec }: LegacyHibernation): ConvertedHibernation {
  return {
    apiVersion,
    kind: "CocoonHibernation",
    metadata: {
      name: spec.podName,
      ...(metadata.namespace === undefined ? {} : { namespace: metadata.namespace }),
    },
    spec: { podRef: { name: spec.podName }, desire: desireOf[spec.action] },
  };
}

export function toLegacyHibernationSpec({ podRef, desire }: CocoonHibernationSpec): LegacyHibernationSpec {
  return { podName: podRef.name, action: actionOf[desire] };
}

/** `snapshotRef` is the reference of the snapshot while one is needed. */
export function toLegacyHibernationStatus(
  status: CocoonHibernationStatus,
  snapshotRef?: string,
): LegacyHibernationStatus {
  const ready = findCondition(status.conditions, "Ready");
  return {
    ...(status.phase === undefined ? {} : { phase: status.phase }),
    ...(snapshotRef === undefined ? {} : { snapshotRef }),
    ...(status.vmName === undefined ? {} : { vmName: status.vmName }),
    ...(ready === undefined ? {} : { message: ready.message, lastTransitionTime: ready.lastTransitionTime }),
  };
}

/** The current status of an older object, for taking it over once. A phase that nobody knows reads as Pending. */
export function fromLegacyHibernationStatus(
  status: LegacyHibernationStatus,
  { observedGeneration, now }: { readonly observedGeneration: number; readonly now: string },
): CocoonHibernationStatus {
  const phase: HibernationPhase = isPhase(status.phase) ? status.phase : "Pending";
  const ready: Condition = {
    ...hibernationCondition(phase, observedGeneration, status.message ?? phase),
    lastTransitionTime: status.lastTransitionTime ?? now,
  };
  return {
    observedGeneration,
    phase,
    ...(status.vmName === undefined ? {} : { vmName: status.vmName }),
    conditions: [ready],
  };
}

function isPhase(text: string | undefined): text is HibernationPhase {
  return text !== undefined && (hibernationPhases as readonly string[]).includes(text);
}
