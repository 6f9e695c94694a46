import assert from "node:assert/strict";
import { test } from "node:test";
import type { Pod } from "../provider.ts";
import { samePod, failedAttemptStatus, pendingStatus, statusPatch } from "./pod-status.ts";
import { findMisfit } from "./resource-fit.ts";

function pod(name: string, requests: Record<string, string> = {}, more: Partial<Pod> = {}): Pod {
  return {
    metadata: { name, namespace: "ns", uid: `uid-${name}` },
    spec: { containers: [{ name: "main", resources: { requests } }] },
    ...more,
  };
}

test("a pod fits, or the first resource that is short is named in a kubelet's words", () => {
  const allocatable = { cpu: "2", memory: "1Gi", pods: "3" };
  const others = [pod("a", { cpu: "500m" }), pod("b", { cpu: "1", memory: "512Mi" })];
  assert.equal(findMisfit(pod("c", { cpu: "500m", memory: "512Mi" }), others, allocatable), undefined);
  assert.deepEqual(findMisfit(pod("c", { cpu: "600m" }), others, allocatable), {
    reason: "OutOfcpu",
    message: "Node didn't have enough resource: cpu, requested: 600, used: 1500, capacity: 2000",
  });
  assert.equal(findMisfit(pod("c", { memory: "513Mi" }), others, allocatable)?.reason, "OutOfmemory");
  assert.equal(
    findMisfit(pod("c", { "example.com/gpu": "1" }), [], allocatable)?.reason,
    "OutOfexample.com/gpu",
  );
  assert.equal(findMisfit(pod("c", { "kubernetes.io/batch-cpu": "1500" }), [], allocatable), undefined);
  assert.equal(findMisfit(pod("d"), [...others, pod("c")], allocatable)?.reason, "OutOfpods");
  const done = pod("b", { cpu: "1" }, { status: { phase: "Succeeded" } });
  assert.equal(
    findMisfit(pod("c", { cpu: "1500m" }), [pod("a", { cpu: "500m" }), done], allocatable),
    undefined,
  );
  assert.equal(
    findMisfit(pod("a", { cpu: "2" }), [pod("a", { cpu: "2" })], allocatable),
    undefined,
    "a pod does not compete with itself",
  );
});

test("an init container counts when it is the largest", () => {
  const big: Pod = {
    ...pod("c"),
    spec: {
      containers: [{ name: "m" }],
      initContainers: [{ name: "i", resources: { requests: { cpu: "3" } } }],
    },
  };
  assert.equal(findMisfit(big, [], { cpu: "2" })?.reason, "OutOfcpu");
});

test("only what a provider must hear of is a difference", () => {
  const base = pod("a");
  assert.ok(samePod(base, { ...base, status: { phase: "Running" } }));
  assert.ok(samePod(base, { ...base, metadata: { ...base.metadata, resourceVersion: "7" } }));
  assert.ok(!samePod(base, { ...base, metadata: { ...base.metadata, annotations: { a: "b" } } }));
  assert.ok(!samePod(base, { ...base, spec: { ...base.spec, activeDeadlineSeconds: 5 } }));
});

test("a status patch holds what changed, keeps others' conditions, clears what is over, and is nothing when nothing is new", () => {
  const scheduled = {
    type: "PodScheduled",
    status: "True" as const,
    lastTransitionTime: "2026-01-01T00:00:00Z",
  };
  const before = pod(
    "a",
    {},
    {
      status: {
        phase: "Pending",
        reason: "ProviderFailed",
        message: "old",
        podIP: "10.0.0.1",
        conditions: [
          scheduled,
          { type: "Ready", status: "False", lastTransitionTime: "2026-01-01T00:00:00Z" },
        ],
      },
    },
  );
  const now = new Date("2026-02-02T00:00:00.123Z");
  const patch = statusPatch(
    before,
    { status: { phase: "Running", conditions: [{ type: "Ready", status: "True" }] } },
    now,
  );
  assert.deepEqual(patch, {
    metadata: { uid: "uid-a" },
    status: {
      phase: "Running",
      reason: null,
      message: null,
      podIP: null,
      conditions: [
        scheduled,
        { type: "Ready", status: "True", lastProbeTime: null, lastTransitionTime: "2026-02-02T00:00:00Z" },
      ],
    },
  });
  const applied = pod(
    "a",
    {},
    {
      status: {
        phase: "Running",
        conditions: [
          scheduled,
          { type: "Ready", status: "True", lastProbeTime: null, lastTransitionTime: "2026-02-02T00:00:00Z" },
        ],
      },
    },
  );
  assert.equal(
    statusPatch(
      applied,
      { status: { phase: "Running", conditions: [{ type: "Ready", status: "True" }] } },
      new Date(),
    ),
    undefined,
  );
  const annotations = { "x/state": "ready", "x/old": null };
  assert.deepEqual(statusPatch(applied, { status: { phase: "Running" }, annotations }, new Date()), {
    metadata: { uid: "uid-a", annotations },
    status: {},
  });
});

test("a failed attempt waits, or is final where nothing is restarted", () => {
  assert.equal(
    pendingStatus(pod("a"), "10.0.0.1").containerStatuses?.[0]?.state?.waiting?.reason,
    "ContainerCreating",
  );
  assert.equal(failedAttemptStatus(pod("a"), "ProviderFailed", "why").phase, "Pending");
  const never: Pod = { ...pod("a"), spec: { containers: [], restartPolicy: "Never" } };
  assert.equal(failedAttemptStatus(never, "ProviderFailed", "why").phase, "Failed");
});
