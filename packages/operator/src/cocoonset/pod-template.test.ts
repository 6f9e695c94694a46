/** The pods of a set, as they are on the wire. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { readCocoonSet } from "@cocoon/contract";
import { readMachine } from "../pod-machine.ts";
import { advisoryChanges, findDrift, templateHash } from "./drift.ts";
import { computeMembers } from "./members.ts";
import { buildPod, requiredNode, type PodOptions } from "./pod-template.ts";

const options: PodOptions = { placement: { kind: "anywhere" }, restore: false, sleep: "", legacyKeys: false };

const atlas = (agent: object = {}, spec: object = {}) =>
  readCocoonSet({
    metadata: { name: "atlas", namespace: "lab", uid: "u-1", generation: 3 },
    spec: {
      snapshotPolicy: "main-only",
      nodePool: "dense",
      snapshotCompatibilityClass: "icelake-v2",
      ...spec,
      agent: {
        image: "team/base-agent:v7",
        replicas: 2,
        storage: "60Gi",
        probePort: 22,
        network: "lab-net",
        serviceAccountName: "atlas-agent",
        envFrom: [{ secretRef: { name: "atlas-env" } }],
        resources: { requests: { cpu: "2", memory: "4Gi" }, limits: { cpu: "2", memory: "4Gi" } },
        ...agent,
      },
      toolboxes: [
        {
          name: "legacy",
          os: "windows",
          mode: "static",
          staticIP: "10.20.0.9",
          staticVMID: "qemu-77",
          vncPort: 5907,
        },
      ],
    },
  });

test("a sub-agent's pod is what kubelets and schedulers expect", () => {
  const set = atlas();
  const [fork] = computeMembers(set).subAgents;
  assert.ok(fork);
  const pod = buildPod(set, fork, { ...options, placement: { kind: "required", node: "cocoon-n3" } });
  assert.equal(requiredNode(pod), "cocoon-n3");
  const { affinity: _affinity, ...spec } = pod.spec ?? { containers: [] };
  assert.deepEqual(pod.metadata, {
    name: "atlas-1",
    namespace: "lab",
    labels: {
      "cocoonset.cocoonstack.io/name": "atlas",
      "cocoonset.cocoonstack.io/role": "sub-agent",
      "cocoonset.cocoonstack.io/slot": "1",
      "app.kubernetes.io/name": "atlas",
    },
    annotations: {
      "cocoonset.cocoonstack.io/generation": "3",
      "cocoonset.cocoonstack.io/mode": "clone",
      "cocoonset.cocoonstack.io/image": "team/base-agent:v7",
      "cocoonset.cocoonstack.io/os": "linux",
      "cocoonset.cocoonstack.io/storage": "60Gi",
      "cocoonset.cocoonstack.io/network": "lab-net",
      "cocoonset.cocoonstack.io/snapshot-policy": "main-only",
      "cocoonset.cocoonstack.io/managed": "true",
      "cocoonset.cocoonstack.io/template-hash": templateHash(set, fork),
      "vm.cocoonstack.io/name": "vk-lab-atlas-1",
      "vm.cocoonstack.io/fork-from": "vk-lab-atlas-0",
      "vm.cocoonstack.io/backend": "cloud-hypervisor",
      "vm.cocoonstack.io/probe-port": "22",
    },
    ownerReferences: [
      {
        apiVersion: "cocoonset.cocoonstack.io/v1",
        kind: "CocoonSet",
        name: "atlas",
        uid: "u-1",
        controller: true,
        blockOwnerDeletion: true,
      },
    ],
  });
  assert.deepEqual(spec, {
    terminationGracePeriodSeconds: 1,
    hostname: "atlas-1",
    subdomain: "atlas",
    nodeSelector: { "cocoonstack.io/pool": "dense", "cocoonstack.io/snapshot-cpu-class": "icelake-v2" },
    tolerations: [
      { key: "virtual-kubelet.io/provider", operator: "Exists" },
      { key: "node.kubernetes.io/not-ready", operator: "Exists", effect: "NoExecute" },
      { key: "node.kubernetes.io/unreachable", operator: "Exists", effect: "NoExecute" },
    ],
    serviceAccountName: "atlas-agent",
    enableServiceLinks: false,
    containers: [
      {
        name: "agent",
        image: "ghcr.io/cocoonstack/placeholder:latest",
        envFrom: [{ secretRef: { name: "atlas-env" } }],
        resources: {
          requests: { cpu: "2", memory: "4Gi", "ephemeral-storage": "60Gi" },
          limits: { cpu: "2", memory: "4Gi", "ephemeral-storage": "60Gi" },
        },
      },
    ],
  });
});

test("pods share nothing with the spec they are built from", () => {
  const set = atlas();
  const before = structuredClone(set.spec);
  for (const member of computeMembers(set).subAgents) buildPod(set, member, options);
  assert.deepEqual(set.spec, before, "building a pod writes nothing back");
});

test("a static toolbox carries the address it was given, and is not managed", () => {
  const set = atlas();
  const [legacy] = computeMembers(set).toolboxes;
  assert.ok(legacy);
  const { annotations = {} } = buildPod(set, legacy, { ...options, legacyKeys: true }).metadata;
  assert.equal(annotations["vm.cocoonstack.io/id"], "qemu-77");
  assert.equal(annotations["vm.cocoonstack.io/ip"], "10.20.0.9");
  assert.equal(annotations["vm.cocoonstack.io/vnc-port"], "5907");
  assert.equal(annotations["cocoonset.cocoonstack.io/managed"], undefined);
  assert.equal(annotations["cocoonset.cocoonstack.io/image"], undefined);
  assert.equal(annotations["cocoon.cis/vm-id"], "qemu-77", "a bridged pod has the older keys too");
});

const buildTestPod = (set: ReturnType<typeof atlas>) =>
  readMachine(buildPod(set, computeMembers(set).main, options));

test("only what cannot be changed on a living machine counts as drift", () => {
  const machine = buildTestPod(atlas());
  const drift = (agent: object, spec: object = {}) => {
    const set = atlas(agent, spec);
    return findDrift(set, computeMembers(set).main, machine) !== undefined;
  };
  assert.equal(drift({}), false);
  assert.equal(drift({ storage: "61440Mi" }), false, "the same amount");
  assert.equal(
    drift({ resources: { requests: { cpu: "2000m", memory: "4Gi" }, limits: { cpu: "2", memory: "4Gi" } } }),
    false,
  );
  for (const advisory of [
    { probePort: 80 },
    { connType: "vnc" },
    { network: "x" },
    { forcePull: true },
    { replicas: 9 },
  ])
    assert.equal(drift(advisory), false, JSON.stringify(advisory));
  assert.equal(drift({}, { snapshotPolicy: "never" }), false);
  for (const lasting of [
    { image: "x:1" },
    { os: "windows" },
    { storage: "61Gi" },
    { serviceAccountName: "y" },
    { envFrom: [] },
  ])
    assert.equal(drift(lasting), true, JSON.stringify(lasting));
  assert.equal(drift({}, { nodePool: "other" }), true);
});

test("defaults of the API server and limit ranges are no drift, also of pods without a hash", () => {
  const set = atlas({ resources: { requests: { cpu: "2" }, limits: { memory: "4Gi" } } });
  const built = buildPod(set, computeMembers(set).main, options);
  const [container] = built.spec?.containers ?? [];
  assert.ok(container);
  const defaulted = {
    ...built,
    metadata: {
      ...built.metadata,
      annotations: Object.fromEntries(
        Object.entries(built.metadata.annotations ?? {}).filter(([key]) => !key.endsWith("template-hash")),
      ),
    },
    spec: {
      ...built.spec,
      serviceAccountName: "atlas-agent",
      containers: [
        {
          ...container,
          resources: { requests: { cpu: "2", memory: "4Gi" }, limits: { memory: "4096Mi", cpu: "8" } },
        },
      ],
    },
  };
  assert.equal(findDrift(set, computeMembers(set).main, readMachine(defaulted)), undefined);
});

test("a new address of a static machine is told, not rebuilt", () => {
  const set = atlas();
  const [member] = computeMembers(set).toolboxes;
  assert.ok(member);
  const machine = readMachine(buildPod(set, member, options));
  const moved = { ...member, spec: { ...member.spec, staticIP: "10.20.0.10" } };
  assert.deepEqual(advisoryChanges(moved, machine), { "vm.cocoonstack.io/ip": "10.20.0.10" });
  assert.equal(findDrift(set, moved, machine), undefined);
});
