import assert from "node:assert/strict";
import { test } from "node:test";
import { annotation, hostTaint, label, readMachineState } from "@cocoon/contract";
import type { Pod } from "@cocoon/kube";
import type { SetObject } from "./kinds.ts";
import { machineRows } from "./machine-rows.ts";

const toleration = { key: hostTaint.key, operator: "Exists" };

function machine(annotations: Record<string, string>, more: Partial<Pod> = {}): Pod {
  return {
    metadata: {
      namespace: "team",
      name: "demo-1",
      labels: { [label.set]: "demo", [label.role]: "sub-agent", [label.slot]: "1" },
      annotations: { [annotation.vmName]: "vk-team-demo-1", ...annotations },
      creationTimestamp: "2026-01-02T03:04:05Z",
      ...more.metadata,
    },
    spec: { nodeName: "a", tolerations: [toleration], containers: [], ...more.spec },
    status: more.status ?? { conditions: [{ type: "Ready", status: "True" }] },
  };
}

const state = annotation.lifecycleState;
const sleep = { [annotation.hibernate]: "true" };

test("the state of a machine follows from what its kubelet reports and what is wanted", () => {
  const cases: readonly [string, Pod, string, RegExp][] = [
    ["runs", machine({ [state]: "ready" }), "ready", /^$/],
    [
      "does not answer",
      machine(
        { [state]: "ready" },
        { status: { conditions: [{ type: "Ready", status: "False", message: "no answer" }] } },
      ),
      "not ready",
      /^no answer$/,
    ],
    ["is told to sleep", machine({ [state]: "ready", ...sleep }), "hibernating", /^$/],
    ["is being saved", machine({ [state]: "hibernating", ...sleep }), "hibernating", /^$/],
    ["sleeps", machine({ [state]: "hibernated", ...sleep }), "asleep", /^$/],
    ["is told to wake", machine({ [state]: "hibernated" }), "waking", /^$/],
    ["boots", machine({ [state]: "creating" }), "creating", /^$/],
    [
      "comes back elsewhere",
      machine({ [state]: "creating", [annotation.restoreFromHibernate]: "true" }),
      "waking",
      /^$/,
    ],
    [
      "failed",
      machine({ [state]: "failed", [annotation.lifecycleStateMessage]: "disk full" }),
      "failed",
      /^disk full$/,
    ],
    [
      "comes back after an eviction",
      machine({ [state]: "creating", [annotation.snapshotDigest]: "sha256:aa" }),
      "waking",
      /^$/,
    ],
    ["failed without a word", machine({ [state]: "failed" }, { status: {} }), "failed", /events/],
    [
      "vanished",
      machine({ [state]: "ready" }, { status: { phase: "Failed", message: "VM is gone" } }),
      "failed",
      /VM is gone/,
    ],
    [
      "goes",
      machine({ [state]: "ready" }, { metadata: { deletionTimestamp: "2026-01-02T03:04:05Z" } }),
      "terminating",
      /^$/,
    ],
    [
      "waits for room",
      machine(
        {},
        {
          spec: { nodeName: "", containers: [] },
          status: { conditions: [{ type: "PodScheduled", status: "False", message: "no room" }] },
        },
      ),
      "pending",
      /no room/,
    ],
    ["was not taken up", machine({}, { status: {} }), "pending", /node a has not reported about it yet/],
    [
      "speaks another version",
      machine({ [state]: "dreaming" }),
      "unknown",
      /reports "dreaming", which this version does not know/,
    ],
  ];
  for (const [name, pod, wanted, message] of cases) {
    const found = readMachineState(pod);
    assert.equal(found.state, wanted, name);
    assert.match(found.message, message, name);
  }
});

const set: SetObject = {
  metadata: { namespace: "team", name: "demo", creationTimestamp: "2026-01-01T00:00:00Z" },
  spec: {
    agent: { image: "base", resources: { requests: { memory: "1Gi" }, limits: { memory: "2Gi", cpu: 2 } } },
  },
  status: {
    agents: [
      {
        slot: 0,
        role: "main",
        podName: "demo-0",
        vmName: "vk-team-demo-0",
        nodeName: "b",
        lifecycleState: "hibernated",
        snapshotDigest: "sha256:aa",
      },
      {
        slot: 1,
        role: "sub-agent",
        podName: "demo-1",
        vmName: "vk-team-demo-1",
        snapshotDigest: "sha256:bb",
      },
    ],
  },
};

test("a hibernated machine without a pod is shown from its set, with the snapshot it sleeps in", () => {
  const rows = machineRows([set], [machine({ [state]: "hibernated", ...sleep })]);
  assert.deepEqual(
    rows.map(({ name, state: shown, node, snapshot, memory, cpu }) => [
      name,
      shown,
      node,
      snapshot,
      memory,
      cpu,
    ]),
    [
      ["demo-0", "asleep", "b", "sha256:aa", "1Gi", "2"],
      ["demo-1", "asleep", "a", "sha256:bb", "", ""],
    ],
  );
});

test("a running machine shows no snapshot, ordinary pods are not shown, and numbers are sorted as numbers", () => {
  const named = (name: string, pod: Pod): Pod => ({ ...pod, metadata: { ...pod.metadata, name } });
  const runs = machine({
    [state]: "ready",
    [annotation.snapshotDigest]: "sha256:old",
    [annotation.ip]: "10.0.0.7",
  });
  const ordinary: Pod = { metadata: { namespace: "team", name: "web" }, spec: { containers: [] } };
  const rows = machineRows([], [named("demo-10", runs), named("demo-9", runs), ordinary]);
  assert.deepEqual(
    rows.map(({ name, snapshot, ip }) => [name, snapshot, ip]),
    [
      ["demo-9", "", "10.0.0.7"],
      ["demo-10", "", "10.0.0.7"],
    ],
  );
});
