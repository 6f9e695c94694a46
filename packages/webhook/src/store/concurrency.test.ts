/** Several replicas, several pools, lost answers, lagging watches: no name is ever granted twice. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { silentLogger } from "@cocoon/core";
import { configMaps } from "@cocoon/kube";
import { count, seededRandom, testSeed } from "@cocoon/testkit";
import { PendingLoads } from "../nodes/pending-loads.ts";
import { PlacementRules } from "../nodes/placement.ts";
import { readPodShape } from "../nodes/pod-shape.ts";
import { PodIndex } from "../pods/pod-index.ts";
import { removeEmptyShards } from "../reaper/reaper.ts";
import { ConfigMapServer } from "../testing/config-map-server.ts";
import type { ClaimRequest } from "./claim-request.ts";
import { formatEntryKey, writeEntry, type Entry, type OwnerChain } from "./entry.ts";
import { ReservationIndex } from "./reservation-index.ts";
import { Reservations, type Answer } from "./reservations.ts";
import { newShard } from "./shard.ts";
import { ShardWrites } from "./shard-writes.ts";
import { WatchProgress } from "./watch-progress.ts";

const signal = new AbortController().signal;
const shape = readPodShape({ containers: [] });

interface Replica {
  readonly reserved: ReservationIndex;
  readonly reservations: Reservations;
  readonly writes: ShardWrites;
}

/** One process: what it knows comes from its own watch alone. */
function startReplica(server: ConfigMapServer): Replica {
  const pods = new PodIndex({ version: () => "0" });
  const pending = new PendingLoads(() => false);
  const reserved = new ReservationIndex(pending);
  const watchProgress = new WatchProgress();
  for (const object of server.objects) reserved.apply(object);
  server.watch(({ kind, object }) => {
    const version = BigInt(object.metadata.resourceVersion ?? "0");
    if (kind === "deleted") reserved.forget(object.metadata.name ?? "", version);
    else reserved.apply(object);
    watchProgress.advance(version);
  });
  const nodes = { get: () => undefined, inPool: () => [] };
  const placement = new PlacementRules({ nodes, pods, pending, pinMode: "auto" });
  const sets = { findPrefixOwner: () => undefined, findNameOwner: () => undefined };
  const client = server.client();
  const writes = new ShardWrites({ client, reserved, count: () => undefined, signal });
  const reservations = new Reservations({
    client,
    context: { reserved, sets, pods, placement, now: () => new Date(0) },
    writes,
    watchProgress,
    isInRegistry: () => Promise.resolve(false),
    log: silentLogger,
    signal,
  });
  return { reserved, reservations, writes };
}

function ownerChain(namespace: string, name: string): OwnerChain {
  return { namespace, owner: { kind: "Deployment", name, uid: "" }, form: "slot" };
}

/** Two of them mean the same names. */
const owners = [
  ownerChain("a-b", "c"),
  ownerChain("a", "b-c"),
  ownerChain("ns", "web"),
  ownerChain("ns", "web-1"),
];
const pools = ["one", "one-1", "two"];

async function storm(seed: number): Promise<void> {
  const random = seededRandom(seed);
  const pick = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)] as T;
  const server = new ConfigMapServer({ random, lostAnswers: 0.05, turns: 8 });
  let replicas = Array.from({ length: 1 + Math.floor(random() * 3) }, () => startReplica(server));
  const granted: string[] = [];
  const dead = new Set<Replica>();
  const ask = async (number: number): Promise<void> => {
    for (let turns = Math.floor(random() * 60); turns > 0; turns -= 1) await new Promise(setImmediate);
    const replica = pick(replicas);
    const request = {
      claim: `claim-${seed}-${number}`,
      pool: pick(pools),
      ownerChain: pick(owners),
      podName: "",
      ordinal: 0,
      shape,
      desired: () => undefined,
      learned: { proofs: new Map<string, boolean>() },
    };
    let answer: Answer | undefined;
    try {
      answer = await replica.reservations.reserve(request, { signal });
    } catch {
      return; // not granted: the API server would try again with another claim
    }
    if (answer.kind === "granted" && !dead.has(replica)) granted.push(answer.granted.entry.vmName);
  };
  const asking = Array.from({ length: 60 }, (_, number) => ask(number));
  for (let turns = Math.floor(random() * 120); turns > 0; turns -= 1) await new Promise(setImmediate);
  const [victim] = replicas;
  if (victim && random() < 0.5) {
    dead.add(victim); // its writes may still arrive, its answers not
    replicas = [...replicas.slice(1), startReplica(server)];
  }
  await Promise.all(asking);
  assert.equal(
    new Set(granted).size,
    granted.length,
    `a name was granted twice: ${granted.toSorted().join(" ")}`,
  );
  const stored = server.objects.flatMap(({ data }) => Object.values(data ?? {}));
  const names = stored.map((text) => (JSON.parse(text) as { vmName: string }).vmName);
  for (const name of granted) assert.ok(names.includes(name), `${name} was granted and is not in the store`);
}

test("no storm makes two pods share a name", { timeout: 600_000 }, async () => {
  const rounds = count({ small: 150, full: 3_000 });
  for (let round = 0; round < rounds; round += 1) {
    const seed = testSeed() * 10_000 + round;
    await storm(seed).catch((error: unknown) => {
      throw new Error(`storm ${seed}`, { cause: error });
    });
  }
});

test("what waits together goes out in one write, and full shards are followed by new ones", async () => {
  const server = new ConfigMapServer({ random: () => 0, lostAnswers: 0, turns: 0 });
  const { reservations } = startReplica(server);
  const web = ownerChain("ns", "web");
  const answers = await Promise.all(
    Array.from({ length: 1_000 }, (_, number) =>
      reservations.reserve(
        {
          claim: `claim-${number}`,
          pool: "p",
          ownerChain: web,
          podName: "",
          ordinal: 0,
          shape,
          desired: () => undefined,
          learned: { proofs: new Map() },
        },
        { signal },
      ),
    ),
  );
  const slots = answers.map((answer) => (answer.kind === "granted" ? answer.granted.entry.slot : -1));
  assert.deepEqual(
    slots.toSorted((left, right) => left - right),
    Array.from({ length: 1_000 }, (_, slot) => slot),
  );
  assert.ok(server.writes <= 8, `${server.writes} writes for 1,000 reservations`);
  assert.deepEqual(
    server.objects.map(({ metadata }) => metadata.name),
    ["cocoon-affinity-p", "cocoon-affinity-p-1", "cocoon-affinity-p-2", "cocoon-affinity-p-3"],
    "a batch goes into one shard, however large it makes it",
  );
  const sizes = server.objects.map(({ data }) => JSON.stringify(data).length);
  assert.ok(Math.max(...sizes) < 1_000_000 / 4);
});

test("a long chain of sparse shards costs a reservation nothing", async () => {
  const server = new ConfigMapServer({ random: () => 0, lostAnswers: 0, turns: 0 });
  const old = ownerChain("ns", "old");
  const shards = 300;
  for (let index = 0; index < shards; index += 1) {
    const entry = oldEntry(old, index);
    const change = { data: { [formatEntryKey(entry)]: writeEntry(entry) }, seal: index < shards - 1 };
    await server.client().create(configMaps, newShard("p", index, change), { signal });
  }
  const before = new Map(server.objects.map((object) => [object.metadata.name, object]));
  const { writes } = server;
  const { reservations } = startReplica(server);
  const asked = Array.from({ length: 50 }, (_, number) =>
    reservations.reserve(buildRequest(`claim-${number}`, ownerChain("ns", "web")), { signal }),
  );
  for (const answer of await Promise.all(asked)) assert.equal(answer.kind, "granted");
  assert.equal(server.writes - writes, 1, "one group commit");
  const changed = server.objects.filter((object) => before.get(object.metadata.name) !== object);
  assert.deepEqual(
    changed.map(({ metadata }) => metadata.name),
    [`cocoon-affinity-p-${shards - 1}`],
  );
});

/** Machines of old shards end, two replicas tidy up, one of them may die, and pods come all the while. */
async function clearance(seed: number): Promise<void> {
  const random = seededRandom(seed);
  const server = new ConfigMapServer({ random, lostAnswers: 0.1, turns: 6 });
  const old = ownerChain("ns", "old");
  const sealed = 6;
  for (let index = 0; index < sealed; index += 1) {
    const entry = oldEntry(old, index);
    const change = { data: { [formatEntryKey(entry)]: writeEntry(entry) }, seal: true };
    await server
      .client()
      .create(configMaps, newShard("p", index, change), { signal })
      .catch(() => undefined);
  }
  const replicas = [startReplica(server), startReplica(server)] as const;
  const dead = random() < 0.5 ? replicas[1] : undefined;
  const kept = new Set(["vk-ns-old-2", "vk-ns-old-0"]);
  const end = (vmName: string) =>
    Promise.all(
      replicas.map(async ({ reserved, reservations }) => {
        const [held] = reserved.holding(vmName);
        if (!held) return;
        await reservations.edit(held, () => ({ entry: undefined }), { signal }).catch(() => undefined);
      }),
    );
  const tidy = (replica: Replica) =>
    removeEmptyShards({ ...replica, log: silentLogger }, { signal }).catch(() => undefined);
  const granted: string[] = [];
  const ask = async (number: number) => {
    const replica = replicas[number % 2] ?? replicas[0];
    const answer = await replica.reservations
      .reserve(buildRequest(`claim-${number}`, ownerChain("ns", "web")), { signal })
      .catch(() => undefined);
    if (answer?.kind === "granted" && replica !== dead) granted.push(answer.granted.entry.vmName);
  };
  const names = Array.from({ length: sealed }, (_, slot) => `vk-ns-old-${slot}`).filter(
    (name) => !kept.has(name),
  );
  await Promise.all([
    ...names.map(end),
    ...Array.from({ length: 20 }, (_, number) => ask(number)),
    ...replicas.map(tidy),
  ]);
  for (let round = 0; round < 8; round += 1) await Promise.all([...names.map(end), ...replicas.map(tidy)]);

  assert.equal(new Set(granted).size, granted.length, "a name was granted twice");
  const stored = server.objects.flatMap(({ data }) => Object.values(data ?? {}));
  const held = stored.map((text) => (JSON.parse(text) as { vmName: string }).vmName);
  for (const name of [...granted, ...kept]) assert.ok(held.includes(name), `${name} is not in the store`);
  const empty = server.objects.filter(({ data }) => Object.keys(data ?? {}).length === 0);
  const last = server.objects.at(-1)?.metadata.name;
  assert.deepEqual(
    empty
      .map(({ metadata }) => metadata.name)
      .filter((name) => name !== last && name !== "cocoon-affinity-p"),
    [],
    "empty shards are gone",
  );
}

test("shards that empty are removed beside traffic, by two replicas, and nothing else is lost", async () => {
  for (let round = 0; round < count({ small: 40, full: 2_000 }); round += 1) {
    const seed = testSeed() * 10_000 + round;
    await clearance(seed).catch((error: unknown) => {
      throw new Error(`clearance ${seed}`, { cause: error });
    });
  }
});

function buildRequest(claim: string, of: OwnerChain): ClaimRequest {
  return {
    claim,
    pool: "p",
    ownerChain: of,
    podName: "",
    ordinal: 0,
    shape,
    desired: () => undefined,
    learned: { proofs: new Map() },
  };
}

function oldEntry({ namespace, owner }: OwnerChain, slot: number): Entry {
  return {
    pool: "p",
    namespace,
    deployment: owner.name,
    slot,
    vmName: `vk-${namespace}-${owner.name}-${slot}`,
    pod: `${owner.name}-${slot}`,
    node: "n",
    updatedAt: "2026-01-01T00:00:00Z",
    owner,
    claim: `old-${slot}`,
    podUid: `uid-${slot}`,
    goneSince: "",
    lastGone: "",
  };
}
