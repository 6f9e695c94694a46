import assert from "node:assert/strict";
import { test } from "node:test";
import { hostTaint } from "@cocoon/contract";
import type { Node } from "@cocoon/kube";
import { PodIndex } from "../pods/pod-index.ts";
import { readSlimPod } from "../pods/slim-pod.ts";
import { readNodeFacts, type NodeFacts } from "./node-facts.ts";
import { PendingLoads } from "./pending-loads.ts";
import { PlacementRules, type PlaceRequest, type PinMode } from "./placement.ts";
import { readPodShape, type PodShape } from "./pod-shape.ts";

interface NodeOptions {
  readonly ready?: boolean;
  readonly spec?: Node["spec"];
  readonly labels?: Readonly<Record<string, string>>;
  readonly cpu?: string;
}

function node(
  name: string,
  { ready = true, spec = {}, labels = {}, cpu = "8" }: NodeOptions = {},
): NodeFacts {
  return readNodeFacts({
    metadata: { name, labels: { "cocoonstack.io/pool": "default", ...labels } },
    spec,
    status: {
      conditions: [{ type: "Ready", status: ready ? "True" : "False" }],
      allocatable: { cpu, memory: "32Gi", pods: "10" },
    },
  } as Node);
}

const tolerations = [{ key: hostTaint.key, operator: "Exists" }];
const readShape = (spec: object = {}): PodShape => readPodShape({ tolerations, containers: [], ...spec });
const requests = (cpu: string) => ({ containers: [{ name: "c", resources: { requests: { cpu } } }] });

interface World {
  readonly nodes: readonly NodeFacts[];
  readonly pods?: readonly { readonly node: string; readonly cpu?: string }[];
  readonly pending?: readonly string[];
  readonly pinMode?: PinMode;
}

function rulesFor({ nodes, pods = [], pending = [], pinMode = "auto" }: World): PlacementRules {
  const index = new PodIndex({ version: () => "1" });
  for (const [number, { node: nodeName, cpu = "0" }] of pods.entries()) {
    const metadata = { name: `p${number}`, namespace: "ns", uid: `u${number}` };
    const object = readSlimPod({ metadata, spec: { nodeName, ...requests(cpu) } } as never);
    index.take({ kind: "added", object, initial: false });
  }
  const loads = new PendingLoads(() => false);
  for (const [number, each] of pending.entries()) loads.add(`c${number}`, each);
  const source = {
    get: (name: string) => nodes.find((each) => each.metadata.name === name),
    inPool: (pool: string) => nodes.filter((each) => each.pool === pool),
  };
  return new PlacementRules({ nodes: source, pods: index, pending: loads, pinMode });
}

const base: PlaceRequest = {
  shape: readShape(),
  pool: "default",
  sticky: "",
  vmName: "vm",
  proof: undefined,
};

function chosen(world: World, request: Partial<PlaceRequest> = {}): string {
  const placed = rulesFor(world).place({ ...base, ...request });
  return placed.kind === "placed" ? `${placed.placement.node} ${placed.placement.pin}` : placed.kind;
}

test("the least used node, reservations in flight included; among equals the first by name", () => {
  const nodes = [node("b"), node("a"), node("c")];
  assert.equal(chosen({ nodes }), "a nodeName");
  assert.equal(chosen({ nodes, pods: [{ node: "a" }] }), "b nodeName");
  assert.equal(chosen({ nodes, pods: [{ node: "a" }], pending: ["b", "b"] }), "c nodeName");
});

test("nodes that cannot take the pod are passed over", () => {
  const good = node("z");
  const cases: readonly (readonly [NodeFacts, PodShape?])[] = [
    [node("a", { ready: false })],
    [node("a", { spec: { unschedulable: true } })],
    [node("a", { spec: { taints: [{ key: "other", effect: "NoSchedule" }] } })],
    [node("a", { spec: { taints: [{ key: "node.kubernetes.io/out-of-service", effect: "NoExecute" }] } })],
    [node("a", { labels: { "cocoonstack.io/pool": "gpu" } })],
    [node("a", { cpu: "1" }), readShape(requests("2"))],
  ];
  for (const [bad, shape = readShape()] of cases)
    assert.equal(chosen({ nodes: [bad, good] }, { shape }), "z nodeName");
  const tainted = node("a", { spec: { taints: [{ ...hostTaint }] } });
  assert.equal(chosen({ nodes: [tainted, good] }), "a nodeName", "its own taint is tolerated");
  const full = Array.from({ length: 10 }, () => ({ node: "a" }));
  assert.equal(chosen({ nodes: [node("a")], pods: full }), " none", "no room: the scheduler's business");
  assert.equal(chosen({ nodes: [] }), " none");
});

test("selectors and affinity are honoured", () => {
  const nodes = [node("a"), node("b", { labels: { disk: "ssd" } })];
  assert.equal(chosen({ nodes }, { shape: readShape({ nodeSelector: { disk: "ssd" } }) }), "b nodeName");
  const required = (term: object) =>
    readShape({
      affinity: {
        nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [term] } },
      },
    });
  const ssd = { matchExpressions: [{ key: "disk", operator: "In", values: ["ssd"] }] };
  assert.equal(chosen({ nodes }, { shape: required(ssd) }), "b nodeName");
  const named = { matchFields: [{ key: "metadata.name", operator: "In", values: ["b"] }] };
  assert.equal(chosen({ nodes }, { shape: required(named) }), "b nodeName");
  assert.equal(chosen({ nodes }, { shape: required({}) }), " none", "an empty term matches nothing");
});

test("requests that are used up do not fit, those of pods to come included", () => {
  const nodes = [node("a", { cpu: "4" }), node("b", { cpu: "4" })];
  const pods = [{ node: "a", cpu: "3" }, { node: "b" }, { node: "b" }];
  assert.equal(chosen({ nodes, pods }, { shape: readShape(requests("2")) }), "b nodeName");
});

test("what only the scheduler can decide is pinned by affinity; so is everything where that is wanted", () => {
  const nodes = [node("a")];
  const shape = readShape({ affinity: { podAntiAffinity: {} } });
  assert.equal(chosen({ nodes }, { shape }), "a affinity");
  assert.equal(chosen({ nodes, pinMode: "affinity" }), "a affinity");
  const volume = { volumes: [{ name: "v", persistentVolumeClaim: { claimName: "c" } }] };
  assert.equal(chosen({ nodes }, { shape: readShape(volume) }), "a affinity");
  assert.equal(chosen({ nodes }, { shape: readShape({ nodeName: "z" }) }), "z none", "by hand");
});

test("a machine goes back to its node, and elsewhere only when it is safe", () => {
  const away = node("a", { ready: false });
  const fenced = node("a", {
    spec: { taints: [{ key: "node.kubernetes.io/out-of-service", effect: "NoExecute" }] },
  });
  const busy = [{ node: "a" }, { node: "a" }];
  assert.equal(chosen({ nodes: [node("a"), node("b")], pods: busy }, { sticky: "a" }), "a nodeName");
  assert.equal(chosen({ nodes: [node("b")] }, { sticky: "a" }), "b nodeName", "its Node object is gone");
  assert.equal(chosen({ nodes: [fenced, node("b")] }, { sticky: "a" }), "b nodeName");
  assert.equal(chosen({ nodes: [away, node("b")] }, { sticky: "a" }), "prove");
  assert.equal(chosen({ nodes: [away, node("b")] }, { sticky: "a", proof: true }), "b nodeName");
  assert.equal(chosen({ nodes: [away] }, { sticky: "a", proof: true }), "a affinity", "there is no other");
  const waits = rulesFor({ nodes: [away, node("b")] }).place({ ...base, sticky: "a", proof: false });
  assert.equal(waits.kind, "placed");
  assert.deepEqual(waits.kind === "placed" && [waits.placement.node, waits.placement.pin], ["a", "affinity"]);
  assert.match(
    (waits.kind === "placed" && waits.placement.warning) || "",
    /stays on node a, which is not ready/,
  );
});
