import assert from "node:assert/strict";
import { test } from "node:test";
import { annotation, hostTaint, label, legacyAnnotation, nodeLabel } from "./keys.ts";
import {
  isContainerRunning,
  isMachinePod,
  isPodReady,
  isPodTerminal,
  isWindowsPod,
  ownerSet,
  readMachineLabels,
  readPool,
  getPodRole,
  findPodSlot,
  type PodLike,
} from "./pod-state.ts";
import { shouldSnapshot } from "./snapshot-policy.ts";
import { golden } from "./testing/golden.ts";
import type { Role } from "./vm-name.ts";
import { chooseConnectionType } from "./vm-options.ts";

const key = nodeLabel.pool;

test("the pool comes from selector, label, annotation, default", () => {
  const table: readonly (readonly [PodLike, string])[] = [
    [{ metadata: {} }, "default"],
    [{ metadata: { annotations: { [key]: "c" } } }, "c"],
    [{ metadata: { labels: { [key]: "b" }, annotations: { [key]: "c" } } }, "b"],
    [{ metadata: { labels: { [key]: "b" } }, spec: { nodeSelector: { [key]: "a" } } }, "a"],
    [{ metadata: { labels: { [key]: "b" } }, spec: { nodeSelector: { [key]: "" } } }, "b"],
  ];
  for (const [pod, pool] of table) assert.equal(readPool(pod), pool);
});

test("how a machine is reached", () => {
  const table: readonly (readonly [Parameters<typeof chooseConnectionType>[0], string])[] = [
    [{ os: "linux", hasVncPort: false }, "ssh"],
    [{ os: "macos", hasVncPort: false }, "ssh"],
    [{ os: "", hasVncPort: false }, "ssh"],
    [{ os: "windows", hasVncPort: false }, "rdp"],
    [{ os: "android", hasVncPort: false }, "adb"],
    [{ os: "windows", hasVncPort: true }, "vnc"],
    [{ os: "windows", hasVncPort: true, override: "ssh" }, "ssh"],
    [{ os: "windows", hasVncPort: true, override: "" }, "vnc"],
  ];
  for (const [facts, type] of table) assert.equal(chooseConnectionType(facts), type, JSON.stringify(facts));
});

test("the snapshot policy is this truth table", () => {
  const roles: readonly (Role | undefined)[] = ["main", "sub-agent", "toolbox", undefined];
  const table: Readonly<Record<string, readonly boolean[]>> = {
    always: [true, true, true, true],
    "": [true, true, true, true],
    "main-only": [true, false, false, false],
    never: [false, false, false, false],
    "something-newer": [true, true, true, true],
  };
  for (const [policy, answers] of Object.entries(table))
    assert.deepEqual(
      roles.map((role) => shouldSnapshot(policy, role)),
      answers,
      policy,
    );
});

const owned = (vm: string, kind = "CocoonSet"): PodLike => ({
  metadata: {
    name: "demo-0",
    namespace: "prod",
    annotations: { [annotation.vmName]: vm },
    ownerReferences: [
      { kind: "ReplicaSet", name: "other" },
      { kind, name: "demo" },
    ],
  },
});

test("role and slot come from owner and exact name", () => {
  const table: readonly (readonly [PodLike, Role, number | undefined])[] = [
    [owned("vk-prod-demo-0"), "main", 0],
    [owned("vk-prod-demo-2"), "sub-agent", 2],
    [owned("vk-prod-demo-db-2"), "toolbox", undefined],
    [owned("vk-stage-demo-0"), "toolbox", undefined],
    [owned("vk-prod-demo-0", "StatefulSet"), "toolbox", undefined],
    [{ metadata: { namespace: "prod" } }, "toolbox", undefined],
  ];
  for (const [pod, role, slot] of table) {
    assert.equal(getPodRole(pod), role);
    assert.equal(findPodSlot(pod), slot);
  }
  const older = owned("");
  assert.equal(
    findPodSlot({
      ...older,
      metadata: { ...older.metadata, annotations: { [legacyAnnotation.vmName]: "vk-prod-demo-4" } },
    }),
    4,
  );
  assert.equal(ownerSet(owned("x")), "demo");
  assert.equal(ownerSet({ metadata: { ownerReferences: [{ kind: "CocoonSet", name: "" }] } }), undefined);
});

test("a toleration's key alone makes a pod a machine", () => {
  const tolerating = (tolerationKey: string | undefined): PodLike => ({
    metadata: {},
    spec: { tolerations: [{ key: "other" }, { key: tolerationKey }] },
  });
  assert.equal(isMachinePod(tolerating(hostTaint.key)), true);
  assert.equal(isMachinePod(tolerating(undefined)), false, "tolerating everything is not meant for us");
  assert.equal(isMachinePod({ metadata: {} }), false);
});

test("ready, terminal and running", () => {
  const running = { containerStatuses: [{ state: {} }, { state: { running: { startedAt: "now" } } }] };
  const ready = (status: string): PodLike => ({
    metadata: {},
    status: {
      conditions: [
        { type: "Initialized", status: "True" },
        { type: "Ready", status },
      ],
    },
  });
  assert.deepEqual(
    ["True", "False", "Unknown"].map((status) => isPodReady(ready(status))),
    [true, false, false],
  );
  assert.equal(isPodReady({ metadata: {} }), false);
  const phases = ["Pending", "Running", "Succeeded", "Failed", "Unknown"];
  assert.deepEqual(
    phases.filter((phase) => isPodTerminal({ metadata: {}, status: { phase } })),
    ["Failed"],
  );
  assert.equal(isContainerRunning({ metadata: {}, status: running }), true);
  assert.equal(
    isContainerRunning({ metadata: {}, status: { containerStatuses: [{ state: {} }, {}] } }),
    false,
  );
});

test("labels of machines are read from current and older keys", () => {
  const { labels } = golden("legacy-pod-annotations") as { labels: Record<string, string> };
  const machine = { set: "demo", role: "sub-agent", member: 1 } as const;
  assert.deepEqual(readMachineLabels(labels), machine);
  const older = Object.fromEntries(Object.entries(labels).filter(([name]) => name.startsWith("cocoon.cis/")));
  assert.deepEqual(readMachineLabels(older), machine);
  const toolbox = { [label.set]: "demo", [label.role]: "toolbox", [label.slot]: "shell" };
  assert.deepEqual(readMachineLabels(toolbox), { set: "demo", role: "toolbox", member: "shell" });
});

test("labels that contradict each other name no machine", () => {
  const labels = (role: string, slot: string) => ({
    "cocoonset.cocoonstack.io/name": "demo",
    "cocoonset.cocoonstack.io/role": role,
    "cocoonset.cocoonstack.io/slot": slot,
  });
  for (const [role, slot] of [
    ["main", "1"],
    ["sub-agent", "0"],
    ["sub-agent", "x"],
    ["sub-agent", "01"],
    ["boss", "0"],
    ["main", ""],
  ] as const)
    assert.equal(readMachineLabels(labels(role, slot)), undefined, `${role} ${slot}`);
  assert.equal(readMachineLabels(undefined), undefined);
});

test("a Windows pod is one in any case of the word, under either key", () => {
  for (const text of ["windows", "Windows", "WINDOWS"])
    for (const name of [annotation.os, legacyAnnotation.os])
      assert.equal(isWindowsPod({ metadata: { annotations: { [name]: text } } }), true, `${name}=${text}`);
  for (const annotations of [undefined, {}, { [annotation.os]: "linux" }, { [annotation.os]: "" }])
    assert.equal(isWindowsPod({ metadata: { annotations } }), false);
});
