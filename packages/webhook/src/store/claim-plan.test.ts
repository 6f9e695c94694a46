import assert from "node:assert/strict";
import { test } from "node:test";
import { PendingLoads } from "../nodes/pending-loads.ts";
import { PlacementRules } from "../nodes/placement.ts";
import { readPodShape } from "../nodes/pod-shape.ts";
import { PodIndex } from "../pods/pod-index.ts";
import type { SlimPod } from "../pods/slim-pod.ts";
import type { ClaimRequest, Plan } from "./claim-request.ts";
import { ClaimRound } from "./claim-plan.ts";
import { formatEntryKey, formatSlotVmName, writeEntry, type Entry, type OwnerChain } from "./entry.ts";
import { ReservationIndex } from "./reservation-index.ts";
import { newShard } from "./shard.ts";

const demo: OwnerChain = {
  namespace: "ns",
  owner: { kind: "Deployment", name: "demo", uid: "d" },
  form: "slot",
};

function entry(slot: number, more: Partial<Entry> = {}): Entry {
  return {
    pool: "default",
    namespace: "ns",
    deployment: "demo",
    slot,
    vmName: formatSlotVmName(demo, slot),
    pod: `demo-${slot}x`,
    node: "",
    updatedAt: "2026-01-01T00:00:00Z",
    owner: demo.owner,
    claim: `claim-${slot}`,
    podUid: `uid-${slot}`,
    goneSince: "",
    lastGone: "",
    ...more,
  };
}

function buildPod({ vmName, pod, podUid, claim, namespace }: Entry, terminating = false): SlimPod {
  return {
    metadata: {
      name: pod,
      namespace,
      uid: podUid,
      resourceVersion: "5",
      ...(terminating ? { deletionTimestamp: "2026-01-01T00:00:00Z" } : {}),
    },
    isMachine: true,
    vmName,
    claim,
    nodeName: "node-a",
    finished: false,
    owner: undefined,
    requests: {},
  };
}

interface World {
  readonly entries?: readonly Entry[];
  readonly live?: readonly number[];
  readonly terminating?: readonly number[];
  readonly podsVersion?: string;
  readonly sets?: Readonly<Record<string, string>>;
}

function roundIn({
  entries = [],
  live = [],
  terminating = [],
  podsVersion = "100",
  sets = {},
}: World): ClaimRound {
  const pods = new PodIndex({ version: () => podsVersion });
  const pending = new PendingLoads(() => false);
  const reserved = new ReservationIndex(pending);
  const data = Object.fromEntries(entries.map((each) => [formatEntryKey(each), writeEntry(each)]));
  const object = newShard("default", 0, { data, seal: false });
  reserved.apply({ ...object, metadata: { ...object.metadata, resourceVersion: "50" } });
  for (const each of entries) {
    const isTerminating = terminating.includes(each.slot);
    if (live.includes(each.slot) || isTerminating)
      pods.take({ kind: "added", object: buildPod(each, isTerminating), initial: false });
  }
  const nodes = { get: () => undefined, inPool: () => [] };
  const placement = new PlacementRules({ nodes, pods, pending, pinMode: "auto" });
  const claims = { findPrefixOwner: (prefix: string) => sets[prefix], findNameOwner: () => undefined };
  return new ClaimRound({ reserved, pods, sets: claims, placement, now: () => new Date(0) });
}

function request(more: Partial<ClaimRequest> = {}): ClaimRequest {
  return {
    claim: "new-claim",
    pool: "default",
    ownerChain: demo,
    podName: "",
    ordinal: 0,
    shape: readPodShape({ containers: [] }),
    desired: () => undefined,
    learned: { proofs: new Map() },
    ...more,
  };
}

function outcome(plan: Plan): string {
  if (plan.kind === "put") return `${plan.granted.entry.vmName}${plan.replaces ? " again" : ""}`;
  return plan.kind === "refuse" ? `refused: ${plan.message}` : plan.kind;
}

const all = [entry(0), entry(1), entry(2)];

test("the smallest free number, gaps first, one round never the same twice", () => {
  const round = roundIn({ entries: [entry(0), entry(2)], live: [0, 2] });
  const plans = [1, 2, 3].map((number) => outcome(round.plan(request({ claim: `c${number}` }))));
  assert.deepEqual(plans, ["vk-ns-demo-1", "vk-ns-demo-3", "vk-ns-demo-4"]);
});

test("a slot whose pod is gone comes before a new one, the lowest first", () => {
  const round = roundIn({ entries: all, live: [1] });
  const plans = [1, 2, 3].map((number) => outcome(round.plan(request({ claim: `c${number}` }))));
  assert.deepEqual(plans, ["vk-ns-demo-0 again", "vk-ns-demo-2 again", "vk-ns-demo-3"]);
});

test("a pod that the cache is too old to know holds its slot", () => {
  assert.equal(outcome(roundIn({ entries: all, podsVersion: "49" }).plan(request())), "vk-ns-demo-3");
});

test("a claim whose pod was not seen yet holds its slot", () => {
  const entries = [entry(0, { podUid: "", pod: "" })];
  assert.equal(outcome(roundIn({ entries }).plan(request())), "vk-ns-demo-1");
});

test("a replacement waits for its predecessor; a scale-up does not", () => {
  const world = { entries: all, live: [0, 1], terminating: [2] };
  const replaced = outcome(roundIn(world).plan(request({ desired: () => 3 })));
  assert.match(replaced, /^refused: the predecessor of this pod, ns\/demo-2x, is still shutting down/);
  assert.equal(outcome(roundIn(world).plan(request({ desired: () => 4 }))), "vk-ns-demo-3");
});

test("an owner that seems complete is looked at before it gets one more", () => {
  const world = { entries: all, live: [0, 1, 2] };
  assert.equal(outcome(roundIn(world).plan(request({ desired: () => 3 }))), "look");
  const look = (uids: readonly string[]) => ({
    look: { namespace: "ns", uids: new Set(uids), version: 200n },
    proofs: new Map<string, boolean>(),
  });
  const surge = request({ desired: () => 3, learned: look(["uid-0", "uid-1", "uid-2"]) });
  assert.equal(outcome(roundIn(world).plan(surge)), "vk-ns-demo-3");
  const replacement = request({ desired: () => 3, learned: look(["uid-0", "uid-2"]) });
  assert.equal(outcome(roundIn(world).plan(replacement)), "vk-ns-demo-1 again", "the cache was behind");
});

test("the same claim gets the same answer", () => {
  const entries = [entry(0), entry(1, { podUid: "", claim: "mine" })];
  const plan = roundIn({ entries, live: [0] }).plan(request({ claim: "mine" }));
  assert.equal(plan.kind === "held" && plan.granted.entry.vmName, "vk-ns-demo-1");
});

test("names of others are refused, naming them", () => {
  const held = /^refused: machine name .* is held by /;
  const other = { ...demo, namespace: "ns-demo", owner: { kind: "Deployment", name: "x", uid: "" } };
  const clash = {
    namespace: "ns",
    owner: { kind: "Deployment", name: "demo-x", uid: "" },
    form: "slot",
  } as const;
  const foreign = entry(0, {
    namespace: "ns-demo",
    deployment: "x",
    owner: other.owner,
    vmName: "vk-ns-demo-x-0",
  });
  assert.match(outcome(roundIn({ entries: [foreign] }).plan(request({ ownerChain: clash }))), held);
  const set = { "vk-ns-demo-": "CocoonSet ns/demo" };
  assert.match(outcome(roundIn({ sets: set }).plan(request())), /held by CocoonSet ns\/demo/);
  const bare: OwnerChain = { namespace: "ns", owner: { kind: "Pod", name: "demo-9", uid: "" }, form: "pod" };
  const pod = request({ ownerChain: bare, podName: "demo-9" });
  assert.match(outcome(roundIn({ entries: all }).plan(pod)), /held by Deployment ns\/demo/);
  assert.equal(outcome(roundIn({}).plan(pod)), "vk-ns-demo-9");
});

test("a slot of another pool is taken, not taken over", () => {
  const entries = [entry(0), entry(1)];
  assert.equal(outcome(roundIn({ entries }).plan(request({ pool: "gpu" }))), "vk-ns-demo-2");
});
