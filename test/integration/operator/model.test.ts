/**
 * People do anything, things go wrong at any time: when it is quiet again, the world is as the specs say, and no
 * machine was ever lost, doubled or set back. The seed is printed; COCOON_TEST_SEED repeats the same choices.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { annotation, type CocoonSet } from "@cocoon/contract";
import { isFault, sleep } from "@cocoon/core";
import { pods, type Pod } from "@cocoon/kube";
import { fixedCredential, openRegistry } from "@cocoon/oci";
import { count, eventually, seededRandom, sharedControlPlane, testSeed } from "@cocoon/testkit";
import { installCrds } from "../contract/install-crds.ts";
import { lateConnection, startRegistrySwitch, type RegistrySwitch } from "./faults.ts";
import { hibernations, openWorld, sets, buildSpec, type TestWorld } from "./world.ts";

const cluster = await sharedControlPlane();
await installCrds(cluster);

type Random = () => number;

interface Play {
  readonly world: TestWorld;
  readonly random: Random;
  readonly registry: RegistrySwitch;
  readonly names: string[];
  readonly ended: string[];
  readonly done: string[];
  lateMs: number;
  created: number;
}

function pick<T>(random: Random, list: readonly T[]): T {
  const chosen = list[Math.floor(random() * list.length)];
  if (chosen === undefined) throw new Error("nothing to pick from");
  return chosen;
}

/** Refused, gone or in each other's way: what happens to people too. */
async function tolerant(work: Promise<unknown>): Promise<void> {
  try {
    await work;
  } catch (error) {
    const expected = [
      "notFound",
      "conflict",
      "alreadyExists",
      "invalid",
      "forbidden",
      "tooManyRequests",
    ] as const;
    if (!expected.some((code) => isFault(error, code))) throw error;
  }
}

type Step = (play: Play, name: string) => Promise<void>;

const userSteps: Readonly<Record<string, Step>> = {
  scale: ({ world, random }, name) =>
    tolerant(world.patch(name, { spec: { agent: { replicas: Math.floor(random() * 3) } } })),
  suspend: ({ world, random }, name) => tolerant(world.patch(name, { spec: { suspend: random() < 0.5 } })),
  image: ({ world, random }, name) =>
    tolerant(world.patch(name, { spec: { agent: { image: `team/base:v${Math.floor(random() * 3)}` } } })),
  advise: ({ world, random }, name) =>
    tolerant(
      world.patch(name, {
        spec: {
          snapshotPolicy: pick(random, ["always", "main-only"]),
          agent: { probePort: Math.floor(random() * 99) },
        },
      }),
    ),
  toolboxes: ({ world, random }, name) => {
    const all = [
      { name: "box", image: "x" },
      { name: "db", image: "y" },
    ];
    return tolerant(world.patch(name, { spec: { toolboxes: all.slice(0, Math.floor(random() * 3)) } }));
  },
  move: ({ world, random }, name) =>
    tolerant(world.patch(name, { spec: { nodeName: pick(random, [...world.nodes, null]) } })),
  hibernate: async ({ world, random }, name) => {
    const pod = `${name}-${Math.floor(random() * 3)}`;
    await tolerant(
      world.apply(pod, { podRef: { name: pod }, desire: pick(random, ["Hibernate", "Wake"]) }, hibernations),
    );
  },
  changeMind: async ({ world, random }, name) => {
    const pod = `${name}-${Math.floor(random() * 3)}`;
    await tolerant(world.patch(pod, { spec: { desire: pick(random, ["Hibernate", "Wake"]) } }, hibernations));
  },
  forgetHibernation: async ({ world, random }, name) => {
    const key = { namespace: world.namespace, name: `${name}-${Math.floor(random() * 3)}` };
    await tolerant(world.connection.delete(hibernations, key, { signal: world.signal }));
  },
  deletePod: async ({ world, random }, name) => {
    const key = { namespace: world.namespace, name: `${name}-${Math.floor(random() * 3)}` };
    await tolerant(world.connection.delete(pods, key, { signal: world.signal }));
  },
  evict: async ({ world, random }, name) => {
    const pod = `${name}-${Math.floor(random() * 3)}`;
    const body = {
      apiVersion: "policy/v1",
      kind: "Eviction",
      metadata: { name: pod, namespace: world.namespace },
    };
    const path = `/api/v1/namespaces/${world.namespace}/pods/${pod}/eviction`;
    await tolerant(world.connection.raw({ method: "POST", path, body, signal: world.signal }));
  },
  touch: ({ world, random }, name) =>
    tolerant(world.patch(name, { metadata: { annotations: { note: String(random()) } } })),
  deleteSet: async ({ world, names, ended }, name) => {
    await tolerant(
      world.connection.delete(sets, { namespace: world.namespace, name }, { signal: world.signal }),
    );
    names.splice(names.indexOf(name), 1);
    ended.push(name);
  },
};

const faults: Readonly<Record<string, (play: Play) => Promise<void>>> = {
  registryDown: async ({ registry }) => void (registry.down = true),
  registryUp: async ({ registry }) => void (registry.down = false),
  kubeletSilent: async ({ world }) => void (world.kubelet.silent = true),
  kubeletSpeaks: async ({ world }) => world.kubelet.speak(),
  lateCaches: async (play) => void (play.lateMs = 400),
  promptCaches: async (play) => void (play.lateMs = 0),
  operatorKilled: async ({ world }) => {
    await world.stopOperator();
    await world.startOperator();
  },
};

async function createSet(play: Play): Promise<void> {
  const { world, random, names } = play;
  const name = `s${(play.created += 1)}`;
  names.push(name);
  const release = random() < 0.2;
  const more = release ? { hibernatePolicy: "release" } : {};
  await world.apply(name, buildSpec(world, more, { replicas: release ? 0 : Math.floor(random() * 3) }));
}

async function step(play: Play): Promise<void> {
  const { random, names } = play;
  if (names.length === 0 || (names.length < 3 && random() < 0.15)) return createSet(play);
  if (random() < 0.2) {
    const [what, fault] = pick(random, Object.entries(faults));
    play.done.push(what);
    return fault(play);
  }
  const name = pick(random, names);
  const [what, act] = pick(random, Object.entries(userSteps));
  if (what === "deleteSet" && random() < 0.6) return;
  play.done.push(`${what} ${name}`);
  await act(play, name);
}

async function calm(play: Play): Promise<void> {
  play.registry.down = false;
  play.lateMs = 0;
  play.world.kubelet.speak();
}

function isReady(pod: Pod): boolean {
  return pod.status?.conditions?.some(({ type, status }) => type === "Ready" && status === "True") ?? false;
}

/** What a set should look like when it is not touched any more. */
async function matches({ world }: Play, set: CocoonSet, all: readonly Pod[]): Promise<void> {
  const name = set.metadata.name ?? "";
  const { status, spec } = set;
  const own = all.filter((pod) => pod.metadata.ownerReferences?.[0]?.uid === set.metadata.uid);
  const shown = JSON.stringify(status);
  assert.equal(status?.observedGeneration, set.metadata.generation, shown);
  if (spec.suspend) {
    assert.equal(status?.phase, "Suspended", shown);
    for (const pod of own)
      assert.equal(
        pod.metadata.annotations?.[annotation.lifecycleState],
        "hibernated",
        String(pod.metadata.name),
      );
  } else {
    const wanted = [
      ...Array.from({ length: 1 + (spec.agent.replicas ?? 0) }, (_, slot) => `${name}-${slot}`),
      ...(spec.toolboxes ?? []).map((toolbox) => `${name}-${toolbox.name}`),
    ];
    const mainAsleep = own.some((pod) => pod.metadata.name === `${name}-0` && !isReady(pod));
    const present = own.map((pod) => pod.metadata.name ?? "").sort();
    if (mainAsleep)
      assert.ok(
        present.every((each) => wanted.includes(each)),
        `${present.join()} of ${wanted.join()}`,
      );
    else {
      assert.deepEqual(present, wanted.sort(), shown);
      assert.equal(status?.phase, "Running", shown);
    }
    for (const pod of own)
      if (!isReady(pod)) {
        const { annotations = {} } = pod.metadata;
        assert.equal(annotations[annotation.lifecycleState], "hibernated", `${pod.metadata.name} ${shown}`);
        assert.equal(annotations[annotation.hibernateReason], "hibernation", `${pod.metadata.name} ${shown}`);
      }
  }
  for (const pod of own) {
    const { annotations = {} } = pod.metadata;
    if (annotations[annotation.lifecycleState] !== "hibernated") continue;
    const digest = await world.digest(annotations[annotation.vmName] ?? "");
    assert.equal(
      digest,
      annotations[annotation.snapshotDigest],
      `${pod.metadata.name} sleeps in a copy that is there`,
    );
  }
}

async function settles(play: Play): Promise<void> {
  const { world } = play;
  await calm(play);
  await eventually(
    async () => {
      assert.deepEqual(world.kubelet.violations, []);
      const { items: all } = await world.connection.list(pods, {
        namespace: world.namespace,
        signal: world.signal,
      });
      const { items } = await world.connection.list(sets, {
        namespace: world.namespace,
        signal: world.signal,
      });
      assert.deepEqual(items.map((set) => set.metadata.name ?? "").sort(), [...play.names].sort());
      for (const set of items) await matches(play, set, all);
    },
    { timeoutMs: 90_000, intervalMs: 250 },
  );
  for (const name of play.ended)
    for (const slot of [0, 1, 2])
      assert.equal(
        await world.digest(world.vmName(`${name}-${slot}`)),
        undefined,
        `${name} left a sleeping copy`,
      );
  const { items: hibernating } = await world.connection.list(hibernations, {
    namespace: world.namespace,
    signal: world.signal,
  });
  // What speaks of pods of sets that are gone is not looked at any more.
  for (const { metadata } of hibernating)
    if (play.ended.some((name) => metadata.name?.startsWith(`${name}-`)))
      await tolerant(
        world.connection.delete(
          hibernations,
          { namespace: world.namespace, name: metadata.name ?? "" },
          { signal: world.signal },
        ),
      );
}

test("no machine is lost, doubled or set back, whatever people and faults do", async (t) => {
  const random = seededRandom(testSeed());
  await using world = await openWorld(cluster, { withoutOperator: true });
  await using registry = await startRegistrySwitch(world.server.url);
  const token = await world.server.createToken({ name: "operator" });
  const credentials = fixedCredential({ kind: "bearer", token });
  await using oci = openRegistry({ address: registry.url, credentials, retry: { attempts: 1 } });
  const play: Play = { world, random, registry, names: [], ended: [], done: [], lateMs: 0, created: 0 };
  const connection = lateConnection(world.connection, () => play.lateMs * random());
  const start = world.startOperator.bind(world);
  world.startOperator = (options) => start({ connection, registry: oci, ...options });
  await world.startOperator();
  const steps = count({ small: 40, full: 3_000 });
  for (let index = 1; index <= steps; index += 1) {
    await step(play);
    await sleep(random() * 120, { signal: t.signal });
    if (index % 20 !== 0) continue;
    try {
      await settles(play);
    } catch (error) {
      t.diagnostic(`step ${index}: ${play.done.slice(-40).join(", ")}`);
      throw error;
    }
  }
});
