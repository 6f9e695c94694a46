import assert from "node:assert/strict";
import { test } from "node:test";
import { sleep } from "@cocoon/core";
import { configMaps, openCaches, openKubeClient } from "@cocoon/kube";
import { count, eventually, seededRandom, sharedControlPlane, testSeed } from "@cocoon/testkit";
import { kubeconfigVia, openClient, testLog } from "./access.ts";
import { churn, fill } from "./churn.ts";
import { startTcpProxy } from "./tcp-proxy.ts";
import { Witness } from "./witness.ts";

const { signal } = new AbortController();
const names = count({ small: 500, full: 5_000 });

test(
  `no object of ${names} is lost or reported twice under churn, with connections cut all the time`,
  { timeout: 1_200_000 },
  async () => {
    const cluster = await sharedControlPlane();
    await using namespace = await cluster.newNamespace();
    await using direct = await openClient(cluster);
    await using proxy = await startTcpProxy(cluster.server);
    await using kubeconfig = await kubeconfigVia(cluster, proxy.url);
    await using client = await openKubeClient({ kubeconfig: kubeconfig.path, signal });
    await fill({ client: direct, namespace: namespace.name, names, signal });

    await using caches = openCaches({ client, log: testLog });
    await using cache = caches.open(configMaps, { namespace: namespace.name });
    await cache.synced({ signal });
    using witness = new Witness(cache);
    assert.ok(witness.size >= names);

    const done = new AbortController();
    const steps = names * 4;
    let cuts = 0;
    const enough = () => cuts > 3 && proxy.accepted > 3;
    const churnWhileCut = async () => {
      let seed = testSeed();
      do {
        await churn({ client: direct, namespace: namespace.name, names, steps, seed, signal });
        seed += 1;
      } while (!enough());
    };
    const work = churnWhileCut().finally(() => done.abort());
    const random = seededRandom(testSeed());
    const cutting = async () => {
      while (await sleep(20 + random() * 300, done)) {
        proxy.cut();
        cuts += 1;
      }
    };
    await Promise.all([work, cutting()]);
    await witness.agreesWith(direct, namespace.name);
  },
);

test(
  "a connection cut in the middle of an event loses nothing and repeats nothing",
  { timeout: 900_000 },
  async () => {
    const cluster = await sharedControlPlane();
    await using namespace = await cluster.newNamespace();
    await using direct = await openClient(cluster);
    await using proxy = await startTcpProxy(cluster.server);
    await using kubeconfig = await kubeconfigVia(cluster, proxy.url);
    await using client = await openKubeClient({ kubeconfig: kubeconfig.path, signal });
    await using caches = openCaches({ client, log: testLog });
    await using cache = caches.open(configMaps, { namespace: namespace.name });
    await cache.synced({ signal });
    using witness = new Witness(cache);

    // Events of 100 KB take seven TLS records: most cuts fall inside one.
    const random = seededRandom(testSeed());
    const rounds = count({ small: 10, full: 30 });
    for (let round = 0; round < rounds; round += 1) {
      const before = proxy.accepted;
      proxy.cutAfter(10_000 + Math.floor(random() * 300_000));
      proxy.cut();
      const steps = 8;
      const payloadBytes = 100_000;
      const seed = testSeed() + round;
      await churn({ client: direct, namespace: namespace.name, names: 8, steps, seed, signal, payloadBytes });
      await eventually(() => assert.ok(proxy.accepted > before), { timeoutMs: 60_000 });
    }
    await witness.agreesWith(direct, namespace.name);
  },
);

test("a connection that went silent is noticed and replaced", { timeout: 120_000 }, async () => {
  const cluster = await sharedControlPlane();
  await using namespace = await cluster.newNamespace();
  await using direct = await openClient(cluster);
  await using proxy = await startTcpProxy(cluster.server);
  await using kubeconfig = await kubeconfigVia(cluster, proxy.url);
  await using client = await openKubeClient({ kubeconfig: kubeconfig.path, signal });
  await using caches = openCaches({ client, log: testLog, tuning: { idleTimeoutMs: 1_500 } });
  await using cache = caches.open(configMaps, { namespace: namespace.name });
  await cache.synced({ signal });
  using witness = new Witness(cache);
  await direct.create(configMaps, { metadata: { namespace: namespace.name, name: "first" } }, { signal });
  const first = { namespace: namespace.name, name: "first" };
  await eventually(() => assert.ok(cache.get(first), "the watch is open"), { timeoutMs: 60_000 });
  const before = proxy.accepted;
  proxy.freeze();
  await fill({ client: direct, namespace: namespace.name, names: 5, signal });
  await witness.agreesWith(direct, namespace.name);
  assert.ok(proxy.accepted > before, "by another connection");
});
