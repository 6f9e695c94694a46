/** What is planned for a CocoonHibernation, row by row. */
import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { annotation, legacyAnnotation } from "@cocoon/contract";
import { computeMembers } from "../cocoonset/members.ts";
import type { TagAnswer } from "../cocoonset/observed-set.ts";
import { readMachine } from "../pod-machine.ts";
import {
  digest,
  buildHibernation,
  now,
  otherDigest,
  buildTestPod,
  buildSet,
  type How,
  type PodInput,
} from "../testing/fixtures.ts";
import { planHibernation } from "./plan.ts";
import type { ObservedHibernation } from "./status.ts";

interface Row {
  readonly row: string;
  readonly is?: object;
  readonly pod?: PodInput | How;
  /** The pod belongs to a set. */
  readonly owned?: boolean;
  readonly suspended?: boolean;
  readonly tag?: TagAnswer;
  readonly retry?: string;
  readonly phase: string;
  readonly does?: readonly string[];
}

const there: TagAnswer = { kind: "there", digest };
const absent: TagAnswer = { kind: "absent" };
const unknown: TagAnswer = { kind: "unknown", message: "registry down" };

/** A status with its clock. */
const was = (phase: string, since = "2026-06-01T11:59:00Z", more: object = {}) => ({
  status: {
    phase,
    observedGeneration: 1,
    attempts: 1,
    conditions: [
      { type: "Ready", status: "False", reason: "Pending", message: "why", lastTransitionTime: since },
    ],
    ...more,
  },
});

function buildObserved({
  is = {},
  pod,
  owned = true,
  suspended = false,
  tag,
  retry = "",
}: Row): ObservedHibernation {
  const set = buildSet();
  const input = typeof pod === "string" ? { how: pod } : pod;
  return {
    hibernation: buildHibernation("a-0", is),
    machine: input && readMachine(buildTestPod(set, computeMembers(set), { name: "0", ...input })),
    ownerSet: owned ? "a" : "",
    setSuspended: suspended,
    tag,
    retryText: retry,
    now,
  };
}

function did(plan: ReturnType<typeof planHibernation>): string[] {
  return [
    ...(plan.addFinalizer ? ["finalizer"] : []),
    ...(plan.needsLookup ? ["look up"] : []),
    ...(plan.podChanges ? [plan.podChanges[annotation.hibernate] === "true" ? "key" : "no key"] : []),
    ...(plan.drop ? ["drop"] : []),
    ...(plan.removeFinalizer ? ["let go"] : []),
    ...(plan.retry ? ["retry"] : []),
    ...plan.events.map(({ reason }) => reason),
    ...(plan.duration ? [`${plan.duration.of} ${plan.duration.result}`] : []),
  ];
}

function table(name: string, rows: readonly Row[]): void {
  suite(name, () => {
    for (const row of rows)
      test(row.row, () => {
        const plan = planHibernation(buildObserved(row));
        assert.equal(plan.status.phase, row.phase);
        assert.deepEqual(did(plan), row.does ?? []);
      });
  });
}

const wake = { desire: "Wake" };

table("to sleep", [
  {
    row: "the finalizer comes first",
    is: { metadata: { finalizers: [] } },
    pod: "ready",
    phase: "Hibernating",
    does: ["finalizer"],
  },
  { row: "no pod yet", phase: "Pending" },
  {
    row: "a pod without machine name",
    pod: { annotations: { [annotation.vmName]: undefined } },
    phase: "Pending",
  },
  { row: "no pod any more: what sleeps is not forgotten", is: was("Hibernated"), phase: "Hibernated" },
  { row: "no pod any more: what wakes is not forgotten", is: { ...wake, ...was("Waking") }, phase: "Waking" },
  {
    row: "a static machine is refused",
    pod: { annotations: { [annotation.managed]: undefined } },
    phase: "Failed",
    does: ["HibernationFailed"],
  },
  { row: "a set's pod: its set writes the key", pod: "ready", phase: "Hibernating" },
  {
    row: "a pod without a set: written here",
    pod: "ready",
    owned: false,
    phase: "Hibernating",
    does: ["key"],
  },
  {
    row: "asleep: the registry is asked",
    is: was("Hibernating"),
    pod: "asleep",
    phase: "Hibernating",
    does: ["look up"],
  },
  {
    row: "asleep and there",
    is: was("Hibernating"),
    pod: "asleep",
    tag: there,
    phase: "Hibernated",
    does: ["Hibernated", "hibernate ok"],
  },
  {
    row: "asleep, but no copy",
    is: was("Hibernating"),
    pod: "asleep",
    tag: absent,
    phase: "Hibernating",
    does: ["retry"],
  },
  {
    row: "asleep in another copy",
    is: was("Hibernating"),
    pod: { how: "asleep", recorded: otherDigest },
    tag: there,
    phase: "Hibernating",
    does: ["retry"],
  },
  {
    row: "the registry does not answer, in time",
    is: was("Hibernating"),
    pod: "asleep",
    tag: unknown,
    phase: "Hibernating",
    does: ["retry"],
  },
  {
    row: "the registry does not answer, too late",
    is: was("Hibernating", "2026-06-01T11:50:00Z"),
    pod: "asleep",
    tag: unknown,
    phase: "Failed",
    does: ["HibernateTimedOut", "hibernate timeout"],
  },
  {
    row: "proven is not asked again",
    is: was("Hibernated", undefined, { snapshotDigest: digest }),
    pod: "asleep",
    phase: "Hibernated",
  },
  {
    row: "a newer generation of the set does not undo it",
    is: was("Hibernated", undefined, { snapshotDigest: digest }),
    pod: { how: "asleep", annotations: { [annotation.lifecycleObservedGeneration]: "1" } },
    phase: "Hibernated",
  },
  {
    row: "within the budget",
    is: was("Hibernating", "2026-06-01T11:58:00Z"),
    pod: "dozing",
    phase: "Hibernating",
  },
  {
    row: "after three minutes",
    is: was("Hibernating", "2026-06-01T11:56:00Z"),
    pod: "dozing",
    phase: "Failed",
    does: ["HibernateTimedOut", "hibernate timeout"],
  },
  {
    row: "a budget of its own",
    is: { timeout: "10m", ...was("Hibernating", "2026-06-01T11:56:00Z") },
    pod: "dozing",
    phase: "Hibernating",
  },
  {
    row: "the kubelet says that it failed",
    is: was("Hibernating"),
    pod: "failed",
    phase: "Failed",
    does: ["HibernationFailed"],
  },
  { row: "failed stays failed", is: was("Failed"), pod: "dozing", phase: "Failed" },
  {
    row: "until a new text requests another attempt",
    is: was("Failed"),
    pod: "dozing",
    retry: "again",
    phase: "Hibernating",
    does: ["RetryRequested"],
  },
  {
    row: "or a new spec",
    is: { metadata: { generation: 2 }, ...was("Failed") },
    pod: "dozing",
    phase: "Hibernating",
    does: ["RetryRequested"],
  },
  {
    row: "or it gets there after all",
    is: was("Failed"),
    pod: "asleep",
    tag: there,
    phase: "Hibernated",
    does: ["Hibernated"],
  },
  { row: "a wake that began is finished first", is: was("Waking"), pod: "waking", phase: "Waking" },
]);

table("to wake", [
  { row: "what is awake is Active", is: wake, pod: "ready", phase: "Active" },
  { row: "a set's pod: its set removes the key", is: wake, pod: "asleep", phase: "Waking" },
  {
    row: "a pod without a set: removed here",
    is: wake,
    pod: "asleep",
    owned: false,
    phase: "Waking",
    does: ["no key"],
  },
  { row: "its set is suspended", is: wake, pod: "asleep", suspended: true, phase: "Pending" },
  {
    row: "running is not enough",
    is: { ...wake, ...was("Waking") },
    pod: { annotations: { [annotation.lifecycleState]: "creating" } },
    phase: "Waking",
  },
  {
    row: "ready for an older request is not enough",
    is: { ...wake, ...was("Waking") },
    pod: { annotations: { [annotation.lifecycleObservedGeneration]: "1" } },
    phase: "Waking",
  },
  {
    row: "ready: Active, the copy stays for a while",
    is: { ...wake, ...was("Waking", undefined, { snapshotDigest: digest }) },
    pod: "ready",
    phase: "Active",
    does: ["WokenActive", "wake ok"],
  },
  {
    row: "ready for a while: the copy is looked up",
    is: { ...wake, ...was("Active", undefined, { snapshotDigest: digest }) },
    pod: { readyAt: "2026-06-01T11:00:00Z" },
    phase: "Active",
    does: ["look up"],
  },
  {
    row: "and dropped, when the VM was restored from it",
    is: { ...wake, ...was("Active", undefined, { snapshotDigest: digest }) },
    pod: { readyAt: "2026-06-01T11:00:00Z", restoredDigest: digest },
    tag: there,
    phase: "Active",
    does: ["drop"],
  },
  {
    row: "but not while its memory is still coming from it",
    is: { ...wake, ...was("Active", undefined, { snapshotDigest: digest }) },
    pod: {
      readyAt: "2026-06-01T11:00:00Z",
      restoredDigest: digest,
      annotations: { [annotation.loading]: "true" },
    },
    tag: there,
    phase: "Active",
    does: [],
  },
  {
    row: "but never another one: it is reported and kept",
    is: { ...wake, ...was("Active", undefined, { snapshotDigest: otherDigest }) },
    pod: { readyAt: "2026-06-01T11:00:00Z", restoredDigest: otherDigest },
    tag: there,
    phase: "Active",
    does: ["SnapshotKept"],
  },
  {
    row: "an older kubelet booted fresh: the recorded digest is no proof, and the snapshot is kept",
    is: { ...wake, ...was("Active", undefined, { snapshotDigest: digest }) },
    pod: { readyAt: "2026-06-01T11:00:00Z", recorded: digest },
    tag: there,
    phase: "Active",
    does: ["SnapshotKept"],
  },
  {
    row: "after five minutes",
    is: { ...wake, ...was("Waking", "2026-06-01T11:54:00Z") },
    pod: "waking",
    phase: "Failed",
    does: ["WakeTimedOut", "wake timeout"],
  },
  {
    row: "a sleep that began is finished first",
    is: { ...wake, ...was("Hibernating") },
    pod: "dozing",
    phase: "Hibernating",
  },
  {
    row: "done once: a later sleep is not undone",
    is: { ...wake, ...was("Active") },
    pod: "asleep",
    phase: "Active",
  },
]);

const gone = { metadata: { deletionTimestamp: "2026-06-01T11:59:59Z" } };

table("deletion", [
  {
    row: "keeps the copy and the sleep",
    is: { ...gone, ...was("Hibernated") },
    pod: "asleep",
    owned: false,
    phase: "Hibernated",
    does: ["let go"],
  },
  {
    row: "in the middle of a sleep too",
    is: { ...gone, ...was("Hibernating") },
    pod: "dozing",
    phase: "Hibernating",
    does: ["let go"],
  },
  {
    row: "wakes first when asked to",
    is: { ...gone, deletionPolicy: "Wake", ...was("Hibernated") },
    pod: "asleep",
    owned: false,
    phase: "Waking",
    does: ["no key"],
  },
  {
    row: "and lets go when it is awake",
    is: { ...gone, deletionPolicy: "Wake", ...was("Waking") },
    pod: "ready",
    phase: "Waking",
    does: ["let go"],
  },
  {
    row: "or cannot wake",
    is: { ...gone, deletionPolicy: "Wake", ...was("Waking", "2026-06-01T11:00:00Z") },
    pod: "waking",
    phase: "Failed",
    does: ["let go", "WakeTimedOut", "wake timeout"],
  },
  {
    row: "or is not there",
    is: { ...gone, deletionPolicy: "Wake", ...was("Hibernated") },
    phase: "Hibernated",
    does: ["let go"],
  },
]);

test("a pod that a Hibernation of the older API puts to sleep carries the older key as well", () => {
  const ownerReferences = [
    { apiVersion: "cocoon.cis/v1alpha1", kind: "Hibernation", name: "nap", uid: "u", controller: true },
  ];
  const keys = (is: object) =>
    planHibernation(buildObserved({ row: "", phase: "", pod: "ready", owned: false, is })).podChanges;
  assert.equal(keys({ metadata: { ownerReferences } })?.[legacyAnnotation.hibernate], "true");
  assert.equal(keys({})?.[legacyAnnotation.hibernate], undefined);
});
