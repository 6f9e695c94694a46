import assert from "node:assert/strict";
import { test } from "node:test";
import { computeRequests } from "./amounts.ts";
import { findMisfit, readNodeSupply } from "./fit.ts";
import { readPodDemand } from "./pod-demand.ts";

const cpu = (amount: string, more: object = {}) => ({
  name: "c",
  resources: { requests: { cpu: amount } },
  ...more,
});

test("requests are counted as the scheduler counts them", () => {
  const rows: readonly (readonly [what: string, spec: object, millicores: number])[] = [
    ["containers together", { containers: [cpu("100m"), cpu("200m")] }, 300],
    ["the largest init container", { containers: [cpu("100m")], initContainers: [cpu("1"), cpu("2")] }, 2000],
    [
      "a sidecar beside the containers",
      { containers: [cpu("100m")], initContainers: [cpu("1", { restartPolicy: "Always" })] },
      1100,
    ],
    [
      "an init container beside the sidecars before it",
      { containers: [cpu("100m")], initContainers: [cpu("1", { restartPolicy: "Always" }), cpu("500m")] },
      1500,
    ],
    ["overhead on top", { containers: [cpu("100m")], overhead: { cpu: "50m" } }, 150],
    ["requests of the pod", { containers: [cpu("100m")], resources: { requests: { cpu: "1" } } }, 1000],
    ["a limit without request", { containers: [{ name: "c", resources: { limits: { cpu: "1" } } }] }, 1000],
    ["fractions of a millicore", { containers: [cpu("0.0001")] }, 1],
  ];
  for (const [what, spec, millicores] of rows) assert.equal(computeRequests(spec)["cpu"], millicores, what);
});

test("each reason why a pod does not fit", () => {
  const node = readNodeSupply({
    metadata: { name: "n", labels: { disk: "ssd" } },
    spec: { taints: [{ key: "k", value: "v", effect: "NoSchedule" }] },
    status: { allocatable: { cpu: "1", pods: "2" } },
  });
  const tolerations = [{ key: "k", operator: "Exists" }];
  const demand = (spec: object) => readPodDemand({ containers: [], tolerations, ...spec });
  const empty = { pods: 0, amounts: {} };
  const port = { protocol: "TCP", address: "0.0.0.0", port: 80 };
  const withPort = {
    containers: [{ name: "c", ports: [{ containerPort: 1, hostPort: 80, hostIP: "127.0.0.1" }] }],
  };
  assert.equal(findMisfit(node, demand({}), empty), undefined);
  assert.equal(findMisfit({ ...node, unschedulable: true }, demand({}), empty)?.kind, "unschedulable");
  assert.equal(findMisfit(node, demand({ tolerations: [] }), empty)?.kind, "taint");
  assert.equal(findMisfit(node, demand({ nodeSelector: { disk: "hdd" } }), empty)?.kind, "affinity");
  assert.equal(findMisfit(node, demand(withPort), { ...empty, hostPorts: [port] })?.kind, "port");
  assert.deepEqual(findMisfit(node, demand({}), { pods: 2, amounts: {} }), {
    kind: "resource",
    resource: "pods",
    requested: 1,
    used: 2,
    capacity: 2,
  });
  const full = findMisfit(node, demand({ containers: [cpu("600m")] }), { pods: 1, amounts: { cpu: 500 } });
  assert.deepEqual(full, { kind: "resource", resource: "cpu", requested: 600, used: 500, capacity: 1000 });
});
