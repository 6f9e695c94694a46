/**
 * People, kubelets, schedulers, late caches, deaths between any two writes, a registry that comes and goes, in any order:
 * no machine is ever lost, doubled or set back, and when it is quiet the world is as the specs say. In memory, so that
 * many thousand steps fit; test/integration/operator/model.test.ts does the same on a real API server.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { annotation, type CocoonSet } from "@cocoon/contract";
import { isFault } from "@cocoon/core";
import { pods } from "@cocoon/kube";
import { count, seededRandom, testSeed } from "@cocoon/testkit";
import { cocoonHibernations, cocoonSets } from "./kinds.ts";
import { Simulation } from "./testing/simulation.ts";

type Random = () => number;
const { signal } = new AbortController();
const nodeNames = ["n1", "n2"];

function pick<T>(random: Random, list: readonly T[]): T {
  const chosen = list[Math.floor(random() * list.length)];
  if (chosen === undefined) throw new Error("nothing to pick from");
  return chosen;
}

class Play {
  readonly world: Simulation;
  readonly random: Random;
  readonly done: string[] = [];
  /** Machines that a status ever named: one that was created, evicted and released between two reconciles leaves its snapshot. */
  readonly #listed = new Set<string>();
  #created = 0;

  constructor(world: Simulation, random: Random) {
    this.world = world;
    this.random = random;
  }

  async step(): Promise<void> {
    const { random, world } = this;
    world.nowMs += random() * 2_000;
    const roll = random();
    if (roll < 0.35) await this.operate();
    else if (roll < 0.75) await this.#beKubelet();
    else if (roll < 0.83) world.sync();
    else if (roll < 0.88) await this.#fault();
    else await this.#bePeople();
    assert.deepEqual(world.kubelet.violations, []);
    for (const { status } of world.sets())
      for (const { vmName = "" } of [...(status?.agents ?? []), ...(status?.toolboxes ?? [])])
        this.#listed.add(vmName);
  }

  async operate(): Promise<void> {
    const { world, random } = this;
    const sets = world.sets();
    const hibernations = world.hibernations();
    if (random() < 0.3 && hibernations.length > 0)
      await world.reconcileHibernation(pick(random, hibernations).metadata.name ?? "");
    else if (sets.length > 0) await world.reconcileSet(pick(random, sets).metadata.name ?? "");
  }

  async #beKubelet(): Promise<void> {
    const { world, random } = this;
    const all = world.pods();
    if (all.length === 0) return;
    const pod = pick(random, all);
    const order = random() < 0.5 ? nodeNames : nodeNames.toReversed();
    if (!pod.spec?.nodeName && !pod.metadata.deletionTimestamp) await world.schedule(pod, order);
    else await world.kubelet.step(pod);
  }

  async #fault(): Promise<void> {
    const { world, random } = this;
    const kind = pick(random, ["kill", "restart", "registry", "registry"]);
    this.done.push(kind);
    if (kind === "kill") world.writesLeft = Math.floor(random() * 4);
    else if (kind === "restart") world.restart();
    else world.registry.down = !world.registry.down;
    await Promise.resolve();
  }

  async #bePeople(): Promise<void> {
    const { world, random } = this;
    const sets = world.sets().filter(({ metadata }) => !metadata.deletionTimestamp);
    if (sets.length === 0 || (sets.length < 2 && random() < 0.2)) return this.#create();
    const set = pick(random, sets);
    const name = set.metadata.name ?? "";
    const pod = `${name}-${pick(random, ["0", "1", "2", "box"])}`;
    const [what, act] = pick(random, Object.entries(this.#requests(set, pod)));
    this.done.push(`${what} ${what.includes("od") || what.includes("ibern") ? pod : name}`);
    try {
      await act();
    } catch (error) {
      const expected = ["notFound", "alreadyExists", "conflict"] as const;
      if (!expected.some((code) => isFault(error, code))) throw error;
    }
  }

  #requests(set: CocoonSet, pod: string): Readonly<Record<string, () => Promise<void>>> {
    const { world, random } = this;
    const name = set.metadata.name ?? "";
    const edit = (spec: object) =>
      world.patch(cocoonSets, name, { metadata: { generation: (set.metadata.generation ?? 0) + 1 }, spec });
    const key = { namespace: "lab", name: pod };
    return {
      scale: () => edit({ agent: { replicas: Math.floor(random() * 3) } }),
      suspend: () => edit({ suspend: random() < 0.5 }),
      image: () => edit({ agent: { image: `base:v${Math.floor(random() * 3)}` } }),
      advise: () => edit({ snapshotPolicy: pick(random, ["always", "main-only", "never"]) }),
      toolboxes: () => edit({ toolboxes: random() < 0.5 ? [] : [{ name: "box", image: "x" }] }),
      move: () => edit({ nodeName: pick(random, ["n1", "n2", "nowhere", null]) }),
      hibernate: () => this.#hibernate(pod),
      changeHibernation: () => this.#changeMind(pod),
      forgetHibernation: () => world.people.delete(cocoonHibernations, key, { signal }),
      deletePod: () => world.people.delete(pods, key, { signal }),
      evictPod: () => this.#evict(pod),
      deleteSet: async () => {
        if (random() < 0.3) await world.people.delete(cocoonSets, { namespace: "lab", name }, { signal });
      },
    };
  }

  async #create(): Promise<void> {
    const name = `s${(this.#created += 1)}`;
    this.done.push(`create ${name}`);
    const metadata = { namespace: "lab", name, generation: 1, creationTimestamp: "2026-05-01T00:00:00Z" };
    const release = this.random() < 0.3 ? { hibernatePolicy: "release" } : {};
    const set = { metadata, spec: { ...release, agent: { image: "base:v1", replicas: 0 } } };
    await this.world.people.create(cocoonSets, set, { signal });
  }

  async #hibernate(pod: string): Promise<void> {
    const metadata = { namespace: "lab", name: pod, generation: 1 };
    const deletionPolicy = this.random() < 0.5 ? { deletionPolicy: "Wake" } : {};
    const desire = pick(this.random, ["Hibernate", "Wake"]);
    const object = { metadata, spec: { podRef: { name: pod }, desire, timeout: "1h", ...deletionPolicy } };
    await this.world.people.create(cocoonHibernations, object, { signal });
  }

  async #changeMind(pod: string): Promise<void> {
    const { generation = 0 } =
      this.world.hibernations().find(({ metadata }) => metadata.name === pod)?.metadata ?? {};
    const desire = pick(this.random, ["Hibernate", "Wake"]);
    await this.world.patch(cocoonHibernations, pod, {
      metadata: { generation: generation + 1 },
      spec: { desire },
    });
  }

  async #evict(name: string): Promise<void> {
    const { world } = this;
    const found = world.pods().find(({ metadata }) => metadata.name === name);
    if (!found?.spec?.nodeName || found.metadata.deletionTimestamp) return;
    const conditions = [...(found.status?.conditions ?? []), { type: "DisruptionTarget", status: "True" }];
    await world.patch(pods, name, { status: { ...found.status, conditions } });
    await world.people.delete(pods, { namespace: "lab", name }, { signal });
  }

  /**
   * A machine that woke and was ended on request before the operator noticed looks like one whose copy was lost. Nothing
   * is booted then until a user permits it; users who know that they ended it do.
   */
  async #readMessages(): Promise<void> {
    for (const { metadata, status } of this.world.sets()) {
      const degraded = status?.conditions?.find(({ type }) => type === "Degraded");
      const pod = /(\S+) should sleep in/.exec(degraded?.message ?? "")?.[1];
      if (degraded?.status !== "True" || pod === undefined) continue;
      assert.ok(!this.world.kubelet.isMissed(`vk-lab-${pod}`), degraded.message);
      const annotations = { "cocoonset.cocoonstack.io/boot-fresh": pod };
      await this.world.patch(cocoonSets, metadata.name ?? "", { metadata: { annotations } });
    }
  }

  /** No more requests and no more faults: everything comes to rest. */
  async settle(): Promise<void> {
    const { world } = this;
    world.registry.down = false;
    world.writesLeft = Infinity;
    let waited = false;
    for (let round = 0, quiet = 0; round < 600; round += 1) {
      if (quiet === 3 && waited) break;
      // What has a deadline gets the time to reach it.
      if (quiet === 3) {
        waited = true;
        quiet = 0;
        world.nowMs += 20 * 60_000;
      }
      const before = world.server.resourceVersion;
      world.nowMs += 5_000;
      world.sync();
      for (const { metadata } of world.sets()) await world.reconcileSet(metadata.name ?? "");
      world.sync();
      for (const { metadata } of world.hibernations()) await world.reconcileHibernation(metadata.name ?? "");
      for (const pod of world.pods())
        if (!pod.spec?.nodeName && !pod.metadata.deletionTimestamp) await world.schedule(pod, nodeNames);
        else await world.kubelet.step(pod);
      await this.#readMessages();
      quiet = world.server.resourceVersion === before ? quiet + 1 : 0;
      if (round === 599) assert.fail("it does not come to rest");
    }
    assert.deepEqual(world.kubelet.violations, []);
    for (const set of world.sets()) matches(world, set);
    const living = new Set(world.sets().flatMap(wantedMachines));
    // A suspended set keeps its pods, also those that it will give up when it wakes.
    for (const { metadata } of world.pods()) living.add(metadata.annotations?.[annotation.vmName] ?? "");
    for (const [vmName, tags] of world.registry.copies)
      assert.ok(
        !tags.has("hibernate") || living.has(vmName) || !this.#listed.has(vmName),
        `${vmName} left a sleeping copy behind`,
      );
  }
}

function wantedMachines({ metadata, spec }: CocoonSet): string[] {
  const slots = Array.from({ length: 1 + (spec.agent.replicas ?? 0) }, (_, slot) => String(slot));
  return [...slots, ...(spec.toolboxes ?? []).map(({ name }) => name)].map(
    (each) => `vk-lab-${metadata.name}-${each}`,
  );
}

function matches(world: Simulation, set: CocoonSet): void {
  const name = set.metadata.name ?? "";
  const own = world.pods().filter(({ metadata }) => metadata.ownerReferences?.[0]?.uid === set.metadata.uid);
  const shown = `${JSON.stringify(set.spec)} ${JSON.stringify(set.status)}`;
  assert.equal(set.metadata.deletionTimestamp, undefined, `${name} does not go away`);
  for (const pod of own) {
    const { annotations = {} } = pod.metadata;
    if (!pod.spec?.nodeName && set.spec.nodeName === "nowhere") continue; // it was never anywhere else
    const vmName = annotations[annotation.vmName] ?? "";
    const source = annotations[annotation.forkFrom];
    const waitsForSource = source !== undefined && !world.kubelet.isMissed(vmName);
    if (waitsForSource && !world.kubelet.vms.has(source)) continue; // it is forked when its source wakes
    if (annotations[annotation.hibernate] === "true") {
      assert.equal(annotations[annotation.lifecycleState], "hibernated", `${vmName} ${shown}`);
      assert.ok(world.registry.tags(vmName).has("hibernate"), `${vmName} sleeps in a copy that is there`);
      assert.ok(!world.kubelet.vms.has(vmName), `${vmName} sleeps and runs`);
    } else assert.ok(world.kubelet.vms.has(vmName), `${vmName} is awake and runs ${shown}`);
  }
  if (set.spec.suspend && set.spec.nodeName !== "nowhere")
    return assert.equal(set.status?.phase, "Suspended", shown);
  if (set.spec.suspend) return undefined;
  const main = own.find((pod) => pod.metadata.name === `${name}-0`);
  assert.ok(main, `${name} has a main agent ${shown}`);
  if (!main.spec?.nodeName && set.spec.nodeName === "nowhere") return;
  const asleep = main.metadata.annotations?.[annotation.hibernate] === "true";
  const wanted = [
    ...Array.from({ length: 1 + (set.spec.agent.replicas ?? 0) }, (_, slot) => `${name}-${slot}`),
    ...(set.spec.toolboxes ?? []).map((toolbox) => `${name}-${toolbox.name}`),
  ].sort();
  const present = own.map(({ metadata }) => metadata.name ?? "").sort();
  if (asleep)
    assert.ok(
      present.every((each) => wanted.includes(each)),
      shown,
    );
  else {
    assert.deepEqual(present, wanted, shown);
    assert.equal(set.status?.phase, "Running", shown);
    const target = set.spec.nodeName ?? "";
    if (nodeNames.includes(target)) {
      const reason = set.status?.conditions?.find(({ type }) => type === "Degraded")?.reason;
      assert.ok(main.spec?.nodeName === target || reason === "MigrationReturned", shown);
    }
  }
}

for (const leavesTags of [false, true])
  test(`no machine is lost, doubled or set back, ${leavesTags ? "also with kubelets that leave copies" : "step by step"}`, async (t) => {
    const plays = count({ small: 6, full: 300 });
    const seed = testSeed();
    for (let index = 0; index < plays; index += 1) {
      const random = seededRandom(seed + index * 7919);
      using world = new Simulation({ leavesTags });
      const play = new Play(world, random);
      try {
        for (let round = 0; round < 4; round += 1) {
          for (let step = 0; step < 150; step += 1) await play.step();
          await play.settle();
        }
      } catch (error) {
        t.diagnostic(`play ${index} of seed ${seed}: ${play.done.join(", ")}`);
        throw error;
      }
    }
  });
