/** One child per parent, however late the cache is and whatever others do meanwhile. */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { test } from "node:test";
import { isFault, silentLogger } from "@cocoon/core";
import {
  configMaps,
  openCaches,
  openKubeClient,
  watch,
  type ConfigMap,
  type KubeConnection,
  type ObjectKey,
} from "@cocoon/kube";
import {
  findController,
  controllerReference,
  isControlledBy,
  OwnWrites,
  settled,
  startController,
  watchObjects,
  watchOwned,
  type Outcome,
  type Source,
} from "@cocoon/kube/controller";
import { count, eventually, seededRandom, sharedControlPlane, testSeed } from "@cocoon/testkit";
import { StaleSource } from "./stale-source.ts";

interface Stage {
  readonly client: KubeConnection;
  readonly namespace: string;
  readonly options: { readonly signal: AbortSignal };
}

const parentLabel = { role: "parent" };
const childLabel = { role: "child" };

/** The worst case for the names: nothing about them is derived from the parent. */
function newChild(parent: ConfigMap): ConfigMap {
  return {
    metadata: {
      ...(parent.metadata.namespace === undefined ? {} : { namespace: parent.metadata.namespace }),
      name: `child-${randomBytes(6).toString("hex")}`,
      labels: childLabel,
      ownerReferences: [controllerReference(configMaps, parent)],
    },
  };
}

/** Follows the server's own history of the children and notes every parent that has two of them at once. */
async function watchForTwins(
  { client, namespace }: Stage,
  twins: Set<string>,
  signal: AbortSignal,
): Promise<void> {
  const living = new Map<string, string>();
  const options = { namespace, labelSelector: "role=child", signal };
  for await (const event of watch(client, configMaps, options)) {
    if (event.kind !== "listed" && event.kind !== "applied" && event.kind !== "deleted") continue;
    const { name = "", deletionTimestamp } = event.object.metadata;
    const owner = findController(event.object)?.uid ?? "";
    if (event.kind === "deleted" || deletionTimestamp) living.delete(name);
    else living.set(name, owner);
    const siblings = [...living.values()].filter((each) => each === owner);
    if (siblings.length > 1) twins.add(owner);
  }
}

async function ignoringGone(work: Promise<unknown>): Promise<void> {
  try {
    await work;
  } catch (error) {
    if (!isFault(error, "notFound") && !isFault(error, "conflict")) throw error;
  }
}

/** Parents come, change and go; children are deleted by others. */
async function churn(stage: Stage, random: () => number): Promise<void> {
  const { client, namespace, options } = stage;
  const pick = <T>(list: readonly T[]): T | undefined => list[Math.floor(random() * list.length)];
  const names = Array.from({ length: count({ small: 12, full: 60 }) }, (_, index) => `parent-${index}`);
  const create = (name: string) =>
    client.create(configMaps, { metadata: { namespace, name, labels: parentLabel } }, options);
  for (const name of names) await create(name);
  for (let step = 0; step < count({ small: 250, full: 4_000 }); step += 1) {
    const name = pick(names) ?? "";
    const dice = random();
    if (dice < 0.75) {
      const body = { data: { step: String(step) } };
      await client.patch(configMaps, { key: { namespace, name }, patch: { type: "merge", body } }, options);
    } else if (dice < 0.85) {
      const { items } = await client.list(configMaps, { ...options, namespace, labelSelector: "role=child" });
      const victim = pick(items)?.metadata.name;
      if (victim) await ignoringGone(client.delete(configMaps, { namespace, name: victim }, options));
    } else if (dice < 0.9) {
      await client.delete(configMaps, { namespace, name }, options);
      await create(name);
    } else await new Promise((resolve) => setTimeout(resolve, random() * 30));
  }
}

interface Result {
  readonly twins: ReadonlySet<string>;
  readonly created: number;
}

type OpenSource = (labelSelector: string, mostLateMs: number) => Source<ConfigMap>;

function realCache({ client, namespace }: Stage, stack: AsyncDisposableStack): OpenSource {
  const caches = stack.use(openCaches({ client, log: silentLogger }));
  return (labelSelector) => caches.open(configMaps, { namespace, labelSelector });
}

function lateCache(stage: Stage, stack: AsyncDisposableStack, random: () => number): OpenSource {
  const { client, namespace, options } = stage;
  return (labelSelector, mostLateMs) => {
    const lagMs = () => random() * mostLateMs;
    const { signal } = options;
    return stack.use(new StaleSource({ client, type: configMaps, namespace, labelSelector, signal, lagMs }));
  };
}

interface Variant {
  readonly name: string;
  /** The cache that programs use, or one that is late on purpose. */
  readonly cache: "real" | "late";
  /** Whether the controller reads its own writes, or trusts the cache alone. */
  readonly ownWrites: boolean;
}

async function run(stage: Stage, { cache, ownWrites }: Variant): Promise<Result> {
  const { client, options } = stage;
  const random = seededRandom(testSeed());
  const stop = new AbortController();
  const twins = new Set<string>();
  await using stack = new AsyncDisposableStack();
  const watching = watchForTwins(stage, twins, stop.signal);
  stack.defer(() => watching);
  stack.defer(() => stop.abort());
  const open = cache === "real" ? realCache(stage, stack) : lateCache(stage, stack, random);
  const parents = open("role=parent", 50);
  const children = open("role=child", 400);
  using writes = new OwnWrites({ client, type: configMaps, source: children, log: silentLogger }).start();
  let created = 0;
  const reconcile = async (key: ObjectKey): Promise<Outcome> => {
    const parent = parents.get(key);
    if (!parent) return settled;
    const mine = [...(ownWrites ? writes : children).list()].filter((child) => isControlledBy(child, parent));
    if (mine.some((child) => !child.metadata.deletionTimestamp)) return settled;
    await writes.ensure(newChild(parent), options);
    created += 1;
    return settled;
  };
  {
    await using _controller = startController({
      name: "one-child",
      watches: [watchObjects(parents), watchOwned(children, { owner: configMaps })],
      reconcile,
      log: silentLogger,
      signal: stop.signal,
      concurrency: 4,
    });
    await churn(stage, random);
    if (ownWrites) await eventually(() => assertOneChildEach(stage), { timeoutMs: 60_000, intervalMs: 200 });
  }
  return { twins, created };
}

async function assertOneChildEach({ client, namespace, options }: Stage): Promise<void> {
  const list = (labelSelector: string) => client.list(configMaps, { ...options, namespace, labelSelector });
  const parents = (await list("role=parent")).items.map((each) => each.metadata.uid ?? "");
  const owners = (await list("role=child")).items.map((each) => findController(each)?.uid ?? "");
  assert.deepEqual(
    owners.filter((owner) => parents.includes(owner)).toSorted(),
    parents.toSorted(),
    "each living parent has one child",
  );
}

const variants: readonly Variant[] = [
  { name: "under churn, never two children for one parent", cache: "real", ownWrites: true },
  { name: "never two children either with a cache that is late", cache: "late", ownWrites: true },
  {
    name: "a controller that trusts the late cache makes two: the test can fail",
    cache: "late",
    ownWrites: false,
  },
];

for (const variant of variants)
  test(variant.name, async (t) => {
    const cluster = await sharedControlPlane();
    await using client = await openKubeClient({ kubeconfig: cluster.kubeconfigPath, signal: t.signal });
    await using namespace = await cluster.newNamespace();
    const stage = { client, namespace: namespace.name, options: { signal: t.signal } };
    const { twins, created } = await run(stage, variant);
    assert.ok(created > 10, `only ${created} children were made`);
    if (variant.ownWrites) assert.deepEqual([...twins], [], "parents that had two children at once");
    else assert.ok(twins.size > 0, "no parent had two");
  });
