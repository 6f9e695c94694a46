/** What a watch must survive: each of these with a control plane of its own, since it is broken on purpose. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { sleep } from "@cocoon/core";
import { configMaps, openCaches, openKubeClient, watch } from "@cocoon/kube";
import { eventually, ownControlPlane, testSeed } from "@cocoon/testkit";
import { kubeconfigVia, openClient, testLog } from "./access.ts";
import { churn, fill } from "./churn.ts";
import { compact } from "./etcd.ts";
import { startTcpProxy } from "./tcp-proxy.ts";
import { Witness } from "./witness.ts";

const { signal } = new AbortController();
const namespace = "default";

test(
  "the API server is restarted, gently and by force, in the middle of everything",
  { timeout: 600_000 },
  async () => {
    await using cluster = await ownControlPlane({ controllers: false });
    await using client = await openClient(cluster);
    await using caches = openCaches({ client, log: testLog });
    await using cache = caches.open(configMaps, { namespace });
    await cache.synced({ signal });
    using witness = new Witness(cache);
    const names = 100;
    await fill({ client, namespace, names, signal });
    for (const hard of [false, true]) {
      const steps = Number.POSITIVE_INFINITY; // until the server is away
      const changes = churn({ client, namespace, names, steps, seed: testSeed(), signal }).catch(
        (error: unknown) => error,
      );
      await sleep(200, { signal });
      await cluster.stop("kube-apiserver", { hard });
      assert.ok((await changes) instanceof Error, "the writers noticed that the server was away");
      await sleep(1_000, { signal });
      assert.ok(cache.isSynced, "what is known stays readable meanwhile");
      await cluster.start();
      await churn({ client, namespace, names, steps: 200, seed: testSeed() + 1, signal });
      await witness.agreesWith(client, namespace);
    }
  },
);

test(
  "history is compacted away while the watch is cut off: everything again, with deletions",
  { timeout: 600_000 },
  async () => {
    await using cluster = await ownControlPlane({ controllers: false });
    await using direct = await openClient(cluster);
    await using proxy = await startTcpProxy(cluster.server);
    await using kubeconfig = await kubeconfigVia(cluster, proxy.url);
    await using client = await openKubeClient({ kubeconfig: kubeconfig.path, signal });
    const names = 60;
    await fill({ client: direct, namespace, names, signal });

    await using caches = openCaches({ client, log: testLog });
    await using cache = caches.open(configMaps, { namespace });
    await cache.synced({ signal });
    using witness = new Witness(cache);
    const stop = new AbortController();
    const kinds: string[] = [];
    const watching = (async () => {
      for await (const event of watch(client, configMaps, { namespace, signal: stop.signal }))
        kinds.push(event.kind);
    })();
    await eventually(() => assert.ok(kinds.includes("synced")), { timeoutMs: 60_000 });

    proxy.close();
    await churn({ client: direct, namespace, names, steps: 300, seed: testSeed(), signal });
    for (let index = 0; index < 5; index += 1) {
      const key = { namespace, name: `map-${index}` };
      await direct.delete(configMaps, key, { signal }).catch(() => undefined); // the churn may have deleted it
    }
    await compact(cluster);
    await cluster.stop("kube-apiserver"); // its own memory of the history goes with it
    await cluster.start();
    proxy.open();

    await witness.agreesWith(direct, namespace);
    await eventually(() => assert.equal(kinds.filter((kind) => kind === "synced").length, 2), {
      timeoutMs: 60_000,
    });
    // A list begins anew for each attempt while the server is away; it ends once.
    assert.ok(kinds.filter((kind) => kind === "relisting").length >= 2, "the history was lost");
    await churn({ client: direct, namespace, names, steps: 50, seed: testSeed() + 1, signal });
    await witness.agreesWith(direct, namespace);
    stop.abort();
    await watching;
  },
);

test("etcd stands still for a while: nothing is taken for gone", { timeout: 600_000 }, async () => {
  await using cluster = await ownControlPlane({ controllers: false });
  await using client = await openClient(cluster);
  await fill({ client, namespace, names: 20, signal });
  await using caches = openCaches({ client, log: testLog });
  await using cache = caches.open(configMaps, { namespace });
  await cache.synced({ signal });
  using witness = new Witness(cache);
  await cluster.pause("etcd");
  const key = { namespace, name: "map-0" };
  await assert.rejects(client.delete(configMaps, key, { signal, timeoutMs: 1_000 }), { code: "timeout" });
  assert.equal(cache.size, witness.size);
  await cluster.resume("etcd");
  await witness.agreesWith(client, namespace);
});
