/**
 * Two replicas decide at the same time over one store with delays, and not everything that is admitted gets stored:
 * sums hold at every moment, and what fits gets in.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { Fault } from "@cocoon/core";
import { count, seededRandom, testSeed } from "@cocoon/testkit";
import { defaultGates } from "../gates.ts";
import { quotaKey } from "../keys.ts";
import type { ElasticQuota } from "../kinds.ts";
import { parseResources, type Resources } from "../resources.ts";
import { QuotaUsage, type UsageStore, type StoredPod } from "./quota-usage.ts";
import { readQuota } from "./quota-tree.ts";
import { ChangeAdmission, type AdmittedChange, type ChangeStore } from "./change-admission.ts";

const quiet = { warns: () => false, broken: () => undefined };
const noPods = { podsWithQuotaLabel: () => [], podsInNamespace: () => [] };
const conflict = () => new Fault("conflict", "another writer wrote");

/** Keeps quotas and admitted changes as an API server does; every call takes a moment. */
class SlowApi {
  readonly quotas = new Map<string, ElasticQuota>();
  readonly seen = new Set<string>();
  readonly #random: () => number;
  #version = 1;
  #changes: { version: string | undefined; entries: readonly AdmittedChange[] } = {
    version: undefined,
    entries: [],
  };

  constructor(random: () => number) {
    this.#random = random;
  }

  pause(): Promise<void> {
    return delay(this.#random() * 4);
  }

  store(quota: ElasticQuota): void {
    this.#version += 1;
    const { name = "", uid = "" } = quota.metadata;
    this.seen.add(uid);
    this.quotas.set(name, {
      ...quota,
      metadata: { ...quota.metadata, resourceVersion: String(this.#version) },
    });
  }

  get tree(): ChangeStore {
    return {
      readChanges: async () => {
        await this.pause();
        return this.#changes;
      },
      writeChanges: async (version, entries) => {
        await this.pause();
        if (version !== this.#changes.version) throw conflict();
        this.#version += 1;
        this.#changes = { version: String(this.#version), entries: structuredClone(entries) };
      },
      listQuotas: async () => {
        await this.pause();
        return [...this.quotas.values()];
      },
      wasStored: (uid) => this.seen.has(uid),
    };
  }
}

/**
 * Time that only passes while nothing is on its way to the store: what is held is either stored or lost by then, however
 * slow the machine is.
 */
class QuietTime implements Disposable {
  underWay = 0;
  #nowMs = 0;
  readonly #timer = setInterval(() => {
    if (this.underWay === 0) this.#nowMs += 1_000;
  }, 5);
  readonly now = (): number => this.#nowMs;

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }
}

let uids = 0;

function quota(name: string, min: number, labels: Record<string, string> = {}): ElasticQuota {
  uids += 1;
  const metadata = { name, namespace: "q", uid: `uid-${uids}`, labels };
  return { metadata, spec: { min: { cpu: String(min) }, max: { cpu: "1000" } } };
}

const below = (parent: string) => ({ [quotaKey.parent]: parent });
const ask = () => ({ id: `r-${(uids += 1)}`, dryRun: false, signal: AbortSignal.timeout(30_000) });

test("quotas of two replicas: children never exceed their parent, and all that fits gets in", async () => {
  const random = seededRandom(testSeed());
  for (let round = 0; round < count({ small: 2, full: 100 }); round += 1) {
    const api = new SlowApi(random);
    using time = new QuietTime();
    const common = { store: api.tree, policy: quiet, gates: defaultGates, view: noPods };
    api.store(quota("team", 40, { [quotaKey.isParent]: "true" }));
    const usages = [1, 2].map(() => new ChangeAdmission({ ...common, holdMs: 10_000, nowMs: time.now }));
    const sum = () =>
      [...api.quotas.values()]
        .filter(({ metadata }) => metadata.name !== "team")
        .reduce((total, { spec }) => total + Number(spec?.min?.["cpu"]), 0);
    const create = async (index: number) => {
      const object = quota(`leaf-${index}`, 1, below("team"));
      const admission = usages[index % 2];
      const verdict = await admission?.decide({
        request: { operation: "CREATE", quota: readQuota(object) },
        object,
        ...ask(),
      });
      if (verdict?.kind !== "allow") return "refused";
      if (random() < 0.1) return "lost"; // another webhook refused it
      time.underWay += 1;
      await delay(random() * 30);
      api.store(object);
      time.underWay -= 1;
      assert.ok(sum() <= 40);
      return "stored";
    };
    const outcomes = await Promise.all(Array.from({ length: 60 }, (_, index) => create(index)));
    const stored = outcomes.filter((each) => each === "stored").length;
    assert.equal(sum(), stored);
    assert.ok(outcomes.includes("refused"));
    assert.equal(stored, 40, "room that was not used was given to others");
  }
});

test("a parent that shrinks and a child that grows cannot both win", async () => {
  for (let round = 0; round < count({ small: 5, full: 200 }); round += 1) {
    const api = new SlowApi(seededRandom(testSeed() + round));
    api.store(quota("team", 10, { [quotaKey.isParent]: "true" }));
    api.store(quota("leaf", 5, below("team")));
    const usages = [1, 2].map(
      () =>
        new ChangeAdmission({
          store: api.tree,
          policy: quiet,
          gates: defaultGates,
          view: noPods,
          nowMs: () => 0,
        }),
    );
    const update = async (name: string, min: number, admission: ChangeAdmission | undefined) => {
      const oldObject = api.quotas.get(name);
      assert.ok(oldObject);
      const object = { ...oldObject, spec: { ...oldObject.spec, min: { cpu: String(min) } } };
      const request = { operation: "UPDATE", quota: readQuota(object), old: readQuota(oldObject) } as const;
      const verdict = await admission?.decide({ request, object, ...ask() });
      if (verdict?.kind === "allow") api.store(object);
    };
    await Promise.all([update("team", 6, usages[0]), update("leaf", 9, usages[1])]);
    const min = (name: string) => Number(api.quotas.get(name)?.spec?.min?.["cpu"]);
    assert.ok(min("leaf") <= min("team"), `${min("leaf")} in ${min("team")}`);
    assert.ok(min("leaf") === 9 || min("team") === 6, "one of them won");
  }
});

test("a refusal that is certain does not wait for the changes of others", async () => {
  const api = new SlowApi(() => 0);
  const admission = new ChangeAdmission({
    store: api.tree,
    policy: quiet,
    gates: defaultGates,
    view: noPods,
  });
  const create = (object: ElasticQuota) =>
    admission.decide({
      request: { operation: "CREATE", quota: readQuota(object) },
      object,
      ...ask(),
      signal: AbortSignal.timeout(2_000),
    });
  // Admitted, but not stored yet: whether the parent will exist is not known.
  assert.equal((await create(quota("team", 4, { [quotaKey.isParent]: "true" }))).kind, "allow");
  const tooLarge = await create(quota("leaf", 5, below("team")));
  assert.equal(tooLarge.kind, "deny", "more than the parent has, or no parent at all");
  const base = quota("odd", 1, below("team"));
  const minAboveMax = { ...base, spec: { ...base.spec, min: { cpu: "9" }, max: { cpu: "1" } } };
  assert.equal((await create(minAboveMax)).kind, "deny");
  await assert.rejects(create(quota("fits", 4, below("team"))), "whether it fits depends on the parent");
});

test("what was admitted too late is given back at once", async () => {
  const api = new SlowApi(() => 0);
  api.store(quota("team", 1, { [quotaKey.isParent]: "true" }));
  const admission = new ChangeAdmission({
    store: api.tree,
    policy: quiet,
    gates: defaultGates,
    view: noPods,
  });
  const decide = (name: string, signal: AbortSignal) => {
    const object = quota(name, 1, below("team"));
    return admission.decide({
      request: { operation: "CREATE", quota: readQuota(object) },
      object,
      ...ask(),
      signal,
    });
  };
  const late = new AbortController();
  const first = decide("late", late.signal);
  await delay(1); // the batch is under way
  late.abort(new Error("too late"));
  await assert.rejects(first, /too late/);
  assert.equal((await decide("next", AbortSignal.timeout(10_000))).kind, "allow");
});

test("a quota that was made and deleted at once can be made again", async () => {
  const api = new SlowApi(() => 0);
  const admission = new ChangeAdmission({
    store: api.tree,
    policy: quiet,
    gates: defaultGates,
    view: noPods,
  });
  const create = (object: ElasticQuota) =>
    admission.decide({ request: { operation: "CREATE", quota: readQuota(object) }, object, ...ask() });
  const first = quota("again", 1);
  assert.equal((await create(first)).kind, "allow");
  api.store(first);
  api.quotas.delete("again");
  assert.equal((await create(quota("again", 1))).kind, "allow");
});

function resources(cpu: number): Resources {
  return parseResources({ cpu: String(cpu) }, "it");
}

/** One quota and its pods; what is listed is what was stored before the list began. */
class SlowPods implements UsageStore {
  readonly pods = new Map<string, StoredPod>();
  readonly seen = new Set<string>();
  quota: ElasticQuota;
  readonly #api: SlowApi;
  #version = 1;

  constructor(api: SlowApi, max: number) {
    this.#api = api;
    this.quota = {
      metadata: { name: "leaf", namespace: "q", resourceVersion: "1" },
      spec: { max: { cpu: String(max) } },
    };
  }

  async read(): Promise<ElasticQuota> {
    await this.#api.pause();
    return this.quota;
  }

  async write(quota: ElasticQuota, annotations: Readonly<Record<string, string>>): Promise<ElasticQuota> {
    await this.#api.pause();
    if (quota.metadata.resourceVersion !== this.quota.metadata.resourceVersion) throw conflict();
    this.#version += 1;
    const { metadata } = this.quota;
    this.quota = {
      ...this.quota,
      metadata: {
        ...metadata,
        annotations: { ...metadata.annotations, ...annotations },
        resourceVersion: String(this.#version),
      },
    };
    return this.quota;
  }

  wasStored(uid: string): boolean {
    return this.seen.has(uid);
  }

  async listPods(): Promise<readonly StoredPod[]> {
    const listed = [...this.pods.values()];
    await this.#api.pause();
    return listed;
  }
}

test("pods of two replicas: never more than the quota, room comes back, another writer's number counts", async () => {
  const random = seededRandom(testSeed());
  for (let round = 0; round < count({ small: 2, full: 100 }); round += 1) {
    const store = new SlowPods(new SlowApi(random), 20);
    using time = new QuietTime();
    const key = { namespace: "q", name: "leaf" };
    const usages = [1, 2].map(() => new QuotaUsage({ store, key, holdMs: 10_000, nowMs: time.now }));
    const create = async (index: number) => {
      uids += 1;
      const uid = `pod-${uids}`;
      const refusal = await usages[index % 2]?.admit({
        uid,
        request: resources(1),
        dryRun: false,
        signal: AbortSignal.timeout(30_000),
        waitUntilMs: Number.POSITIVE_INFINITY,
      });
      if (refusal !== undefined) return refusal;
      if (random() < 0.1) return "lost";
      time.underWay += 1;
      await delay(random() * 20);
      time.underWay -= 1;
      store.pods.set(uid, { uid, request: resources(1) });
      store.seen.add(uid);
      assert.ok(store.pods.size <= 20);
      return "stored";
    };
    const outcomes = await Promise.all(Array.from({ length: 50 }, (_, index) => create(index)));
    assert.equal(store.pods.size, 20, "as many as fit");
    const refused = outcomes.filter((each) => each.startsWith("exceeded"));
    assert.equal(refused[0], "exceeded quota: q/leaf, requested: cpu=1, used: cpu=20, limited: cpu=20");
    for (const uid of [...store.pods.keys()].slice(0, 5)) store.pods.delete(uid);
    const again = await Promise.all(Array.from({ length: 10 }, (_, index) => create(index)));
    const back = again.filter((each) => each === "stored" || each === "lost").length;
    assert.ok(back >= 5, "the room of pods that went came back");
    assert.ok(store.pods.size <= 20);
    const annotations = { ...store.quota.metadata.annotations, [quotaKey.childRequest]: '{"cpu":"20"}' };
    store.quota = {
      ...store.quota,
      metadata: { ...store.quota.metadata, annotations, resourceVersion: "other" },
    };
    assert.match(await create(0), /^exceeded quota/);
  }
});
