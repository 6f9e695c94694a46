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
import { findCondition } from "@cocoon/core/conditions";
import { type CocoonHibernationSpec, type CocoonHibernationStatus } from "../hibernation.ts";
import type { HibernationAction } from "../hibernation.ts";
import { apiVersion } from "../keys.ts";
import type { LegacyAction, LegacyHibernation, LegacyHibernationStatus } from "./hibernation.ts";
import type { Converted } from "./convert-cocoonset.ts";

const desireByAction: Readonly<Record<LegacyAction, HibernationAction>> = {
  hibernate: "Hibernate",
  wake: "Wake",
};

type ConvertedHibernation = Converted<"CocoonHibernation", CocoonHibernationSpec>;

export function fromLegacyHibernation({ metadata, spec }: LegacyHibernation): ConvertedHibernation {
  return {
    apiVersion,
    kind: "CocoonHibernation",
    metadata: {
      name: spec.podName,
      ...(metadata.namespace === undefined ? {} : { namespace: metadata.namespace }),
    },
    spec: { podRef: { name: spec.podName }, desire: desireByAction[spec.action] },
  };
}

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
