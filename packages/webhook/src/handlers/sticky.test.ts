/**
 * Asked twice about one pod, because another webhook changed it in between: the pod comes out as if the other had been
 * first, and there is one reservation.
 */
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";
import { annotation, hostTaint, nodeLabel } from "@cocoon/contract";
import { silentLogger } from "@cocoon/core";
import { applyJsonPatch } from "@cocoon/core/json-patch";
import type { AdmissionContext, AdmissionRequest } from "@cocoon/kube/admission";
import { count, testSeed } from "@cocoon/testkit";
import fc from "fast-check";
import { readNodeFacts } from "../nodes/node-facts.ts";
import { PendingLoads } from "../nodes/pending-loads.ts";
import { PlacementRules } from "../nodes/placement.ts";
import { PodIndex } from "../pods/pod-index.ts";
import { ReservationIndex } from "../store/reservation-index.ts";
import { Reservations } from "../store/reservations.ts";
import { ShardWrites } from "../store/shard-writes.ts";
import { WatchProgress } from "../store/watch-progress.ts";
import { ConfigMapServer } from "../testing/config-map-server.ts";
import { mutatePods } from "./mutate.ts";
import { decideSticky } from "./sticky.ts";

const signal = new AbortController().signal;

interface Json {
  metadata: { name?: string; labels?: object; annotations?: Record<string, string> };
  spec: Record<string, unknown> & { nodeName?: string; containers: Record<string, unknown>[] };
}

interface NodeSpec {
  readonly name: string;
  readonly pool?: string;
  readonly allocatable: Readonly<Record<string, string>>;
}

/** One replica of the webhook; several may share a server. */
function startReplica(server: ConfigMapServer, nodes: readonly NodeSpec[]) {
  const pods = new PodIndex({ version: () => "0" });
  const pending = new PendingLoads((claim) => pods.hasClaim(claim));
  const reserved = new ReservationIndex(pending);
  const watchProgress = new WatchProgress();
  server.watch(({ object }) => {
    reserved.apply(object);
    watchProgress.advance(BigInt(object.metadata.resourceVersion ?? "0"));
  });
  const facts = nodes.map(({ name, pool = "default", allocatable }) =>
    readNodeFacts({
      metadata: { name, labels: { [nodeLabel.pool]: pool, disk: name === "node-b" ? "fast" : "slow" } },
      status: { allocatable, conditions: [{ type: "Ready", status: "True" }] },
    } as never),
  );
  const source = {
    get: (name: string) => facts.find(({ metadata }) => metadata.name === name),
    inPool: (pool: string) => facts.filter((each) => each.pool === pool),
  };
  const placement = new PlacementRules({ nodes: source, pods, pending, pinMode: "auto" });
  const sets = { findPrefixOwner: () => undefined, findNameOwner: () => undefined };
  const client = server.client();
  const reservations = new Reservations({
    client,
    context: { reserved, sets, pods, placement, now: () => new Date(0) },
    writes: new ShardWrites({ client, reserved, count: () => undefined, signal }),
    watchProgress,
    isInRegistry: () => Promise.resolve(false),
    log: silentLogger,
    signal,
  });
  const decide = mutatePods({
    decideMachine: decideSticky({
      reservations,
      pending,
      workloads: { deploymentUid: () => "d", desired: () => undefined } as never,
      decideSetPod: () => assert.fail("no set here"),
      onFailure: "refuse",
      granted: () => undefined,
    }),
    sourceAccess: () => Promise.resolve([]),
    writers: { includes: () => Promise.resolve(false) },
    keepOff: false,
    log: silentLogger,
  });
  return async (object: Json, more: Partial<AdmissionRequest> = {}) => {
    const request = {
      uid: randomUUID(),
      kind: { group: "", version: "v1", kind: "Pod" },
      namespace: "ns",
      name: object.metadata.name ?? "",
      operation: "CREATE",
      object,
      ...more,
    } as unknown as AdmissionRequest;
    const { verdict } = await decide(request, { signal, log: silentLogger } as unknown as AdmissionContext);
    assert.notEqual(verdict.kind, "deny", JSON.stringify(verdict));
    const patch = verdict.kind === "allow" ? (verdict.patch ?? []) : [];
    return { patch, pod: applyJsonPatch(object, patch) as Json };
  };
}

const calm = { random: () => 0, lostAnswers: 0, turns: 0 };

interface Stored {
  readonly vmName: string;
  readonly node: string;
  readonly pool: string;
}

function readEntries(server: ConfigMapServer): Stored[] {
  const texts = server.objects.flatMap(({ data }) => Object.values(data ?? {}));
  return texts.map((text) => JSON.parse(text) as Stored);
}

/** Without the number that every admission has of its own, and our own note of what was added. */
function comparable(pod: Json): Json {
  const {
    [annotation.reservation]: claim,
    [annotation.admission]: note,
    ...annotations
  } = pod.metadata.annotations ?? {};
  assert.ok(claim && note, "reserved");
  return { ...pod, metadata: { ...pod.metadata, annotations } };
}

const replicaReference = {
  apiVersion: "apps/v1",
  kind: "ReplicaSet",
  name: "web-1",
  uid: "r",
  controller: true,
};

function machine(more: { metadata?: object; spec?: object } = {}): Json {
  return {
    metadata: { name: "box", ...more.metadata },
    spec: {
      tolerations: [{ key: hostTaint.key, operator: "Exists" }],
      containers: [{ name: "c", image: "x:1", resources: { requests: { cpu: "1" } } }],
      ...more.spec,
    },
  };
}

test("the pod of a Sandbox is named after the Sandbox's uid, and has no reservation", async () => {
  const server = new ConfigMapServer(calm);
  const admit = startReplica(server, [{ name: "node-a", allocatable: { cpu: "4" } }]);
  const owner = { apiVersion: "agents.x-k8s.io/v1beta1", kind: "Sandbox", name: "s1", uid: "u-1" };
  const metadata = { name: "s1", ownerReferences: [{ ...owner, controller: true }] };
  const first = await admit(machine({ metadata }));
  assert.equal(first.pod.metadata.annotations?.[annotation.vmName], "vk-ns-sbx-u-1");
  assert.equal(first.pod.metadata.annotations?.[annotation.snapshotPolicy], "never");
  assert.equal(first.pod.spec.nodeName, undefined);
  assert.deepEqual(readEntries(server), []);
  const again = await admit(first.pod);
  assert.deepEqual(again.pod, first.pod);
  const foreign = await admit(machine({ metadata: { ...metadata, ownerReferences: [owner] } }));
  assert.equal(foreign.pod.metadata.annotations?.[annotation.vmName], "vk-ns-s1", "not its controller");
});

/** What profiles do: each a change that is no change the second time. */
const changes: Readonly<Record<string, (pod: Json) => Json>> = {
  nothing: (pod) => pod,
  label: (pod) => ({ ...pod, metadata: { ...pod.metadata, labels: { tier: "batch" } } }),
  batch: (pod) => inSpec(pod, { containers: [{ ...pod.spec.containers[0], resources: batchAmounts }] }),
  image: (pod) => inSpec(pod, { containers: [{ ...pod.spec.containers[0], image: "y:2" }] }),
  os: (pod) => ({
    ...pod,
    metadata: { ...pod.metadata, annotations: { ...pod.metadata.annotations, [annotation.os]: "windows" } },
  }),
  selector: (pod) => inSpec(pod, { nodeSelector: { disk: "fast" } }),
  pool: (pod) => inSpec(pod, { nodeSelector: { [nodeLabel.pool]: "gpu" } }),
  // The colocation webhook keeps what makes a machine wait for its node.
  tolerations: (pod) =>
    inSpec(pod, {
      tolerations: [{ key: hostTaint.key, operator: "Exists" }, { key: "t" }, ...readTolerationSeconds(pod)],
    }),
  affinity: (pod) => inSpec(pod, { affinity: withExpression(pod.spec["affinity"]) }),
  unchecked: (pod) => inSpec(pod, { topologySpreadConstraints: [{ maxSkew: 1 }] }),
};

const batchAmounts = {
  requests: { "kubernetes.io/batch-cpu": "1000" },
  limits: { "kubernetes.io/batch-cpu": "1000" },
};

function readTolerationSeconds(pod: Json): object[] {
  const all = pod.spec["tolerations"] as { key: string }[];
  return all.filter(({ key }) => key.startsWith("node.kubernetes.io/"));
}

function inSpec(pod: Json, fields: object): Json {
  return { ...pod, spec: { ...pod.spec, ...fields } };
}

/** As the tree of a quota adds it: to every term. */
function withExpression(affinity: unknown): object {
  const nodeAffinity = (affinity as { nodeAffinity?: object } | undefined)?.nodeAffinity as
    | Record<string, { nodeSelectorTerms: object[] }>
    | undefined;
  const key = "requiredDuringSchedulingIgnoredDuringExecution";
  const terms = nodeAffinity?.[key]?.nodeSelectorTerms ?? [{}];
  const matchExpressions = [{ key: "disk", operator: "Exists" }];
  return {
    nodeAffinity: { [key]: { nodeSelectorTerms: terms.map((term) => ({ ...term, matchExpressions })) } },
  };
}

const nodes: readonly NodeSpec[] = [
  { name: "node-a", allocatable: { cpu: "8", pods: "10" } },
  { name: "node-b", allocatable: { cpu: "8", "kubernetes.io/batch-cpu": "1500", pods: "10" } },
  { name: "node-c", allocatable: { "kubernetes.io/batch-cpu": "8000", pods: "10" } },
  { name: "node-g", pool: "gpu", allocatable: { cpu: "8", "kubernetes.io/batch-cpu": "8000", pods: "10" } },
];

const pods: Readonly<Record<string, Json>> = {
  bare: machine(),
  "of a Deployment": machine({
    metadata: { name: undefined, labels: { "pod-template-hash": "1" }, ownerReferences: [replicaReference] },
  }),
  "that names its node": machine({ spec: { nodeName: "node-a" } }),
  "pinned by affinity": machine({ spec: { topologySpreadConstraints: [{ maxSkew: 1 }] } }),
  "that says its own": machine({
    metadata: { annotations: { [annotation.image]: "mine:1", [annotation.os]: "linux", note: "x" } },
  }),
};

const pair = fc.record({
  pod: fc.constantFrom(...Object.keys(pods)),
  first: fc.constantFrom(...Object.keys(changes)),
  second: fc.constantFrom(...Object.keys(changes)),
  other: fc.boolean(),
});

test("in either order the pod is the same, and so is its one reservation; a third call changes nothing", async () => {
  await fc.assert(
    fc.asyncProperty(pair, async ({ pod, first, second, other }) => {
      const profile = (object: Json) => (changes[second] ?? same)((changes[first] ?? same)(object));
      const original = pods[pod] ?? machine();

      const afterUs = new ConfigMapServer(calm);
      const [one, two] = [startReplica(afterUs, nodes), startReplica(afterUs, nodes)];
      const asked = await one(original);
      const { pod: late } = await (other ? two : one)(profile(asked.pod));

      const beforeUs = new ConfigMapServer(calm);
      const { pod: early } = await startReplica(beforeUs, nodes)(profile(original));
      assert.deepEqual(comparable(late), comparable(profile(early)));
      assert.deepEqual(readEntries(afterUs).map(readPlace), readEntries(beforeUs).map(readPlace));

      const { writes } = afterUs;
      const again = await two(late);
      assert.deepEqual(again.patch, []);
      assert.equal(afterUs.writes, writes);
    }),
    { numRuns: count({ small: 150, full: 3_000 }), seed: testSeed() },
  );
});

const same = (pod: Json): Json => pod;
const readPlace = ({ vmName, node, pool }: Stored): Stored => ({ vmName, node, pool });

test("batch resources decide where a machine fits", async () => {
  const server = new ConfigMapServer(calm);
  const ask = startReplica(server, nodes.slice(0, 2));
  const batch = (name: string) => changes["batch"]?.(machine({ metadata: { name } })) ?? machine();
  assert.equal((await ask(batch("one"))).pod.spec.nodeName, "node-b", "the other has none to give");
  assert.equal((await ask(batch("two"))).pod.spec.nodeName, undefined, "full: the scheduler waits");
});

test("a copy of a pod gets a machine of its own, however fast it is made", async () => {
  const server = new ConfigMapServer(calm);
  const ask = startReplica(server, nodes);
  const replica = pods["of a Deployment"] ?? machine();
  const { pod } = await ask(replica);
  server.pods.push({ metadata: { uid: "u", annotations: pod.metadata.annotations ?? {} } });
  const { pod: copy } = await ask(pod);
  assert.equal(pod.metadata.annotations?.[annotation.vmName], "vk-ns-web-0");
  assert.equal(copy.metadata.annotations?.[annotation.vmName], "vk-ns-web-1");
  const made = machine({
    metadata: {
      name: "other",
      annotations: { [annotation.reservation]: randomUUID(), [annotation.admission]: "{}" },
    },
  });
  assert.equal((await ask(made)).pod.metadata.annotations?.[annotation.vmName], "vk-ns-other");
});

test("a dry run reserves nothing and patches nothing, called once or twice", async () => {
  const server = new ConfigMapServer(calm);
  const ask = startReplica(server, nodes);
  const dryRun = { dryRun: true };
  assert.deepEqual((await ask(machine(), dryRun)).patch, []);
  assert.equal(server.writes, 0);
  const { pod } = await ask(machine());
  const { writes } = server;
  assert.deepEqual((await ask(pod, dryRun)).patch, []);
  assert.equal(server.writes, writes);
});
