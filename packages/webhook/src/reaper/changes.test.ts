import assert from "node:assert/strict";
import { test } from "node:test";
import type { SlimPod } from "../pods/slim-pod.ts";
import type { Entry } from "../store/entry.ts";
import { planChange } from "./changes.ts";

const now = new Date("2026-01-01T12:00:00Z");
const minutesAgo = (minutes: number) => new Date(now.getTime() - minutes * 60_000).toISOString();
const graces = { now, goneMs: 30 * 60_000, unboundMs: 60_000 };

const entry: Entry = {
  pool: "default",
  namespace: "ns",
  deployment: "demo",
  slot: 3,
  vmName: "vk-ns-demo-3",
  pod: "",
  node: "a",
  updatedAt: minutesAgo(0.5),
  owner: { kind: "Deployment", name: "demo", uid: "d" },
  claim: "c",
  podUid: "",
  goneSince: "",
  lastGone: "",
};

const pod: SlimPod = {
  metadata: { name: "demo-x", namespace: "ns", uid: "u", resourceVersion: "1" },
  isMachine: true,
  vmName: "vk-ns-demo-3",
  claim: "c",
  nodeName: "b",
  finished: false,
  owner: undefined,
  requests: {},
};

test("a pod that is seen is written down once, with the node it really has", () => {
  const bound = { ...entry, pod: "demo-x", podUid: "u", node: "b" };
  assert.deepEqual(planChange(entry, { kind: "live", pod }, graces), { kind: "write", entry: bound });
  for (const kind of ["live", "terminating", "finished"] as const)
    assert.deepEqual(planChange(bound, { kind, pod }, graces), { kind: "none" });
});

test("the grace counts from when the pod was found to be gone", () => {
  const bound = { ...entry, podUid: "u", updatedAt: minutesAgo(10_000) };
  const marked = { ...bound, goneSince: now.toISOString() };
  assert.deepEqual(planChange(bound, { kind: "gone" }, graces), { kind: "write", entry: marked });
  assert.deepEqual(planChange(marked, { kind: "gone" }, graces), { kind: "none" });
  const recently = { ...bound, goneSince: minutesAgo(29) };
  assert.deepEqual(planChange(recently, { kind: "gone" }, graces), { kind: "none" });
  const longAgo = { ...bound, goneSince: minutesAgo(31) };
  assert.deepEqual(planChange(longAgo, { kind: "gone" }, graces), { kind: "release", why: "gone" });
});

test("a claim whose pod never came falls back to what was before it", () => {
  assert.deepEqual(planChange(entry, { kind: "pending" }, graces), { kind: "none" });
  const old = { ...entry, updatedAt: minutesAgo(2) };
  assert.deepEqual(planChange(old, { kind: "pending" }, graces), { kind: "release", why: "unbound" });
  const retaken = { ...old, lastGone: minutesAgo(5) };
  assert.deepEqual(planChange(retaken, { kind: "pending" }, graces), {
    kind: "fallBack",
    entry: { ...retaken, claim: "", goneSince: minutesAgo(5), lastGone: "" },
  });
});

test("what cannot be seen is left alone", () => {
  assert.deepEqual(planChange({ ...entry, updatedAt: "never" }, { kind: "unseen" }, graces), {
    kind: "none",
  });
});
