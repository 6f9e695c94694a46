/**
 * Moving the main agent to `spec.nodeName`: put it to sleep where it is, prove its copy, let the old pod go, bring it
 * back on the target. What is under way stands on the set, so that every step can be repeated. A move that does not
 * end in time goes back to where the machine came from, and is not tried again for the same spec.
 *
 *   pod of the main agent               step
 *   on the old node, awake              sleep (reason "migration")
 *   on the old node, asleep, proven     persist the digest, delete the pod
 *   gone                                created with the restore mark, bound to the target
 *   elsewhere, not ready                wait; too long and without a machine: delete it, create it for the old node
 *   elsewhere, ready                    done
 */
import { setAnnotation } from "@cocoon/contract";
import { parseDuration } from "@cocoon/core";
import * as z from "zod";
import type { Machine } from "../pod-machine.ts";
import { readHibernationRequest } from "../hibernation-request.ts";
import type { Draft } from "./draft.ts";
import { isTerminating, findMachine } from "./phase.ts";
import { requiredNode } from "./pod-template.ts";

const memorySchema = z.object({
  from: z.string(),
  to: z.string(),
  startedAt: z.string(),
  /** The generation for which the move was given up. */
  returned: z.number().optional(),
});
type Memory = z.infer<typeof memorySchema>;

export interface Migration {
  /** A move claims the main agent: nothing else is done to it. */
  readonly busy: boolean;
  /** The machine is to sleep on the node it is on. */
  readonly leaving: boolean;
  /** Node that a new pod of the main agent must run on; "" for any. */
  readonly pinnedTo: string;
}

const defaultTimeoutMs = 10 * 60_000;

export function planMigration(draft: Draft): Migration {
  const { set, members } = draft.observed;
  const wanted = set.spec.nodeName ?? "";
  const memory = readMemory(draft);
  const main = findMachine(draft.observed, members.main);
  const idle: Migration = { busy: false, leaving: false, pinnedTo: wanted };
  if (memory?.returned !== undefined) return planAfterReturn(draft, memory, main);
  if (memory) return planMove(draft, memory, main);
  if (!main || wanted === "" || main.node === "" || main.node === wanted || !mayMove(draft, main))
    return idle;
  const refusal = preflight(draft, main, wanted);
  if (refusal !== "") {
    draft.problem("MigrationRefused", `cannot move ${main.podName} to ${wanted}: ${refusal}`);
    return idle;
  }
  const started: Memory = { from: main.node, to: wanted, startedAt: draft.observed.now.toISOString() };
  remember(draft, started);
  draft.do({ kind: "persistStatus" });
  draft.emit("Normal", "Migrating", `moving ${main.podName} from ${main.node} to ${wanted}`);
  return planMove(draft, started, main);
}

/** A machine that is hibernated for another reason is moved when it wakes. */
function mayMove({ observed }: Draft, main: Machine): boolean {
  if (main.failed || !main.vm.managed) return false;
  const hibernation = observed.hibernations.get(main.podName);
  if (hibernation && readHibernationRequest(hibernation) === "sleep") return false;
  return !main.hibernate || main.hibernateReason === "suspend" || main.hibernateReason === "migration";
}

function planMove(draft: Draft, memory: Memory, main: Machine | undefined): Migration {
  const { set, members } = draft.observed;
  const wanted = set.spec.nodeName ?? "";
  const current = memory.to === wanted ? memory : retarget(draft, memory, main);
  if (current.returned !== undefined) return { busy: true, leaving: false, pinnedTo: memory.from };
  const pinned = { busy: true, leaving: false, pinnedTo: wanted };
  if (!main) return { ...pinned, busy: true };
  if (main.node === memory.from && wanted !== memory.from && wanted !== "")
    return planLeaving(draft, current, main);
  if (main.awake) return finishMove(draft, main);
  if (isTerminating(draft.observed, members.main)) return pinned;
  return planArriving(draft, current, main);
}

function planLeaving(draft: Draft, memory: Memory, main: Machine): Migration {
  const staying: Migration = { busy: true, leaving: true, pinnedTo: memory.to };
  if (isLate(draft, memory) && !main.asleep) {
    returnToSource(draft, memory, `${main.podName} did not go to sleep in time`);
    return { ...staying, leaving: false };
  }
  const proven = main.asleep && draft.digests.has(main.vm.vmName);
  if (proven) draft.do({ kind: "persistStatus" });
  if (proven) draft.deletePod(main, `its machine is hibernated and moves to ${memory.to}`);
  return staying;
}

function planArriving(draft: Draft, memory: Memory, main: Machine): Migration {
  const { set } = draft.observed;
  const wanted = set.spec.nodeName ?? "";
  // Woken in place: the move was called off, or the scheduler came back to the old node.
  if (main.node === memory.from) return { busy: true, leaving: false, pinnedTo: wanted };
  if (main.failed)
    draft.problem("PodLifecycleFailed", `${main.podName}: ${main.lifecycle.message || "failed"}`);
  const empty = main.runtime.vmId === "";
  if (empty && isLate(draft, memory)) {
    const why = main.unschedulable || main.lifecycle.message || "no reason given";
    returnToSource(draft, memory, `${main.podName} did not come up on ${memory.to} in time: ${why}`);
    draft.deletePod(main, "its move took too long");
  } else if (main.node === "" && wanted !== requiredNode(main.pod)) {
    draft.deletePod(main, "it waits for a node that spec.nodeName no longer names");
  }
  return { busy: true, leaving: false, pinnedTo: wanted };
}

/** The machine is back where it came from, or on the way there. */
function planAfterReturn(draft: Draft, memory: Memory, main: Machine | undefined): Migration {
  const { set } = draft.observed;
  const wanted = set.spec.nodeName ?? "";
  const superseded = draft.generation !== memory.returned && wanted !== memory.to;
  if (superseded || wanted === main?.node) remember(draft, undefined);
  else
    draft.problem(
      "MigrationReturned",
      `the move to ${memory.to} did not end in time; the machine belongs on ${memory.from} until spec.nodeName changes`,
    );
  const settled = main !== undefined && (main.awake || main.asleep);
  if (!superseded && !settled && main) replaceStranded(draft, memory, main);
  return { busy: !settled && !superseded, leaving: false, pinnedTo: superseded ? wanted : memory.from };
}

/** The deletion that came with the return may have met a newer version of the pod, or a restart of the operator. */
function replaceStranded(draft: Draft, { from, to }: Memory, main: Machine): void {
  const waits = main.runtime.vmId === "" && requiredNode(main.pod) === to;
  if (waits && !isTerminating(draft.observed, draft.observed.members.main))
    draft.deletePod(main, `it waits for ${to}, and the machine belongs on ${from}`);
}

function finishMove(draft: Draft, main: Machine): Migration {
  remember(draft, undefined);
  draft.emit("Normal", "Migrated", `${main.podName} runs on ${main.node}`);
  return { busy: false, leaving: false, pinnedTo: draft.observed.set.spec.nodeName ?? "" };
}

/** The desired node changed on the way: to another node, if that can take it, else back. */
function retarget(draft: Draft, memory: Memory, main: Machine | undefined): Memory {
  const to = draft.observed.set.spec.nodeName ?? "";
  const refusal = to === "" || to === memory.from ? "" : preflight(draft, main, to);
  if (refusal === "") {
    const next = { ...memory, to, startedAt: draft.observed.now.toISOString() };
    remember(draft, next);
    return next;
  }
  return returnToSource(draft, { ...memory, to }, `cannot move to ${to}: ${refusal}`);
}

function returnToSource(draft: Draft, memory: Memory, why: string): Memory {
  const returned = { ...memory, returned: draft.generation };
  remember(draft, returned);
  draft.problem("MigrationReturned", `${why}; it goes back to ${memory.from}`);
  return returned;
}

function isLate(draft: Draft, { startedAt }: Memory): boolean {
  const { set, now } = draft.observed;
  const { timeout } = set.spec.migration ?? {};
  const leftMs =
    Date.parse(startedAt) + (timeout ? parseDuration(timeout) : defaultTimeoutMs) - now.getTime();
  if (leftMs > 0) draft.requeueAfter(leftMs);
  return !(leftMs > 0);
}

function preflight({ observed }: Draft, main: Machine | undefined, target: string): string {
  const node = observed.node(target);
  const { nodePool, snapshotCompatibilityClass = "" } = observed.set.spec;
  if (!node) return "there is no such node";
  if (!node.ready) return "the node is not ready";
  if (!node.schedulable) return "the node takes no new pods";
  if (node.pool !== nodePool) return `the node belongs to pool "${node.pool}", not "${nodePool}"`;
  if (snapshotCompatibilityClass !== "" && node.cpuClass !== snapshotCompatibilityClass)
    return `the node has CPU class "${node.cpuClass}", not "${snapshotCompatibilityClass}"`;
  return main ? node.lacks(main) : "";
}

function readMemory({ observed }: Draft): Memory | undefined {
  const text = observed.set.metadata.annotations?.[setAnnotation.migration];
  if (text === undefined) return undefined;
  try {
    return memorySchema.parse(JSON.parse(text));
  } catch {
    return undefined; // not ours, or damaged: the move is planned anew from what is there
  }
}

function remember(draft: Draft, memory: Memory | undefined): void {
  draft.do({
    kind: "annotateSet",
    wanted: { [setAnnotation.migration]: memory ? JSON.stringify(memory) : null },
  });
}
