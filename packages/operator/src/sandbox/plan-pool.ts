/** A SandboxWarmPool: which members are made, and which go. Pure. */
import { sandboxLabel, type SandboxWarmPool } from "@cocoon/contract/agent-sandbox";
import { findCondition, isConditionTrue } from "@cocoon/core/conditions";
import type { CustomObject } from "../kinds.ts";
import { readSandboxObject } from "./settle.ts";

/** A member that is not ready for so long is replaced. */
const graceMs = 5 * 60_000;
const maxBatch = 300;

export interface ObservedPool {
  readonly pool: SandboxWarmPool;
  /** Hash of the template as it is now; undefined when there is no template. */
  readonly templateHash: string | undefined;
  /** Owned by the pool; terminating ones too. */
  readonly members: readonly CustomObject[];
  readonly now: Date;
}

export interface PoolPlan {
  readonly create: number;
  readonly remove: readonly CustomObject[];
  /** Members that wait for room on a node. */
  readonly unschedulable: number;
  /** When a member that is not ready becomes too old. */
  readonly requeueAfterMs: number | undefined;
}

export function planPool({ pool, templateHash, members, now }: ObservedPool): PoolPlan {
  const living = members.filter(isLiving);
  const stale = (member: CustomObject) =>
    pool.spec.updateStrategy?.type === "Recreate" &&
    templateHash !== undefined &&
    member.metadata.labels?.[sandboxLabel.templateHash] !== templateHash;
  const waiting = living.filter((member) => !isReady(member));
  const stuck = waiting.filter((member) => !isUnschedulable(member) && getAgeMs(member, now) >= graceMs);
  const gone = new Set([...living.filter(stale), ...stuck]);
  const kept = living.filter((member) => !gone.has(member));
  const surplus = kept.toSorted(goesFirst).slice(0, Math.max(0, kept.length - pool.spec.replicas));
  const left = members.length - gone.size; // terminating ones still take their place
  const create = templateHash === undefined ? 0 : Math.max(0, pool.spec.replicas - left);
  const ages = waiting.filter((member) => !gone.has(member)).map((member) => graceMs - getAgeMs(member, now));
  return {
    create: Math.min(create, maxBatch),
    remove: [...gone, ...surplus],
    unschedulable: waiting.filter(isUnschedulable).length,
    requeueAfterMs: ages.length === 0 ? undefined : Math.max(1_000, Math.min(...ages)),
  };
}

export function isLiving({ metadata }: CustomObject): boolean {
  return metadata.deletionTimestamp === undefined;
}

export function isReady(member: CustomObject): boolean {
  return isConditionTrue(readSandboxObject(member).status?.conditions, "Ready");
}

function isUnschedulable(member: CustomObject): boolean {
  const found = findCondition(readSandboxObject(member).status?.conditions, "PodScheduled");
  return found?.status === "False" && found.reason === "Unschedulable";
}

function getAgeMs({ metadata }: CustomObject, now: Date): number {
  return now.getTime() - Date.parse(metadata.creationTimestamp ?? now.toISOString());
}

/** Those that are not ready, then the newest. */
function goesFirst(one: CustomObject, other: CustomObject): number {
  const order = Number(isReady(one)) - Number(isReady(other));
  const created = (each: CustomObject) => Date.parse(each.metadata.creationTimestamp ?? "") || 0;
  return order || created(other) - created(one);
}
