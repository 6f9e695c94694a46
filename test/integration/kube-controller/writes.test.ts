import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { test } from "node:test";
import { isFault, silentLogger } from "@cocoon/core";
import { configMaps, openKubeClient, pods, type ConfigMap, type KubeClient } from "@cocoon/kube";
import { addFinalizer, referenceTo, removeFinalizer, startEventRecorder } from "@cocoon/kube/controller";
import { count, eventually, sharedControlPlane, type TestCluster } from "@cocoon/testkit";

interface Stage {
  readonly cluster: TestCluster;
  readonly client: KubeClient;
  readonly namespace: string;
  readonly options: { readonly signal: AbortSignal };
}

async function onStage(signal: AbortSignal, run: (stage: Stage) => Promise<void>): Promise<void> {
  const cluster = await sharedControlPlane();
  await using client = await openKubeClient({ kubeconfig: cluster.kubeconfigPath, signal });
  await using namespace = await cluster.newNamespace();
  await run({ cluster, client, namespace: namespace.name, options: { signal } });
}

async function newConfigMap({ client, namespace, options }: Stage): Promise<ConfigMap> {
  const name = `c-${randomBytes(4).toString("hex")}`;
  return client.create(configMaps, { metadata: { namespace, name } }, options);
}

test("finalizers: many writers add and remove at once and no entry is lost", async (t) => {
  await onStage(t.signal, async (stage) => {
    const { client, options } = stage;
    const type = configMaps;
    for (let round = 0; round < count({ small: 3, full: 50 }); round += 1) {
      const object = await newConfigMap(stage);
      const key = { namespace: stage.namespace, name: object.metadata.name ?? "" };
      const finalizers = Array.from({ length: 6 }, (_, index) => `example.io/f${index}`);
      // All from the same, soon outdated view.
      await Promise.all(
        finalizers.map((finalizer) => addFinalizer({ client, type, object, finalizer }, options)),
      );
      const full = await client.get(type, key, options);
      assert.deepEqual(new Set(full.metadata.finalizers), new Set(finalizers));
      assert.equal(full.metadata.finalizers?.length, finalizers.length);

      const [stays, ...leave] = finalizers;
      await Promise.all([
        ...leave.map((finalizer) => removeFinalizer({ client, type, object: full, finalizer }, options)),
        client.patch(
          type,
          { key, patch: { type: "merge", body: { metadata: { annotations: { busy: "yes" } } } } },
          options,
        ),
        addFinalizer({ client, type, object: full, finalizer: "example.io/late" }, options),
      ]);
      const rest = await client.get(type, key, options);
      assert.deepEqual(new Set(rest.metadata.finalizers), new Set([stays, "example.io/late"]));
      assert.equal(rest.metadata.annotations?.["busy"], "yes");

      await client.delete(type, key, options);
      const target = { client, type, object: rest };
      await assert.rejects(
        addFinalizer(
          { ...target, object: await client.get(type, key, options), finalizer: "too/late" },
          options,
        ),
        (error) => isFault(error, "conflict"),
      );
      await removeFinalizer({ ...target, finalizer: stays ?? "" }, options);
      await removeFinalizer({ ...target, finalizer: "example.io/late" }, options);
      await assert.rejects(client.get(type, key, options), (error) => isFault(error, "notFound"));
      assert.equal(await removeFinalizer({ ...target, finalizer: "example.io/late" }, options), undefined);
    }
  });
});

test("events: counted, as a series, visible to kubectl describe and get events", async (t) => {
  await onStage(t.signal, async (stage) => {
    const { client, cluster, namespace, options } = stage;
    const pod = await client.create(
      pods,
      {
        metadata: { namespace, name: "machine" },
        spec: { nodeName: "none", containers: [{ name: "c", image: "i" }] },
      },
      options,
    );
    const regarding = referenceTo(pods, pod);
    const recorder = startEventRecorder({
      client,
      log: silentLogger,
      component: "test-controller",
      host: "here",
    });
    const repeat = { type: "Warning", reason: "NoCapacity", message: "no node has room" } as const;
    for (let index = 0; index < 5; index += 1) recorder.record(regarding, repeat);
    recorder.record(regarding, {
      type: "Normal",
      reason: "Started",
      message: "machine is up",
      action: "Starting",
    });
    await eventually(async () => {
      const listed = await cluster.kubectl(["get", "events", "-n", namespace, "-o", "json"]);
      const { items } = JSON.parse(listed.stdout) as { items: { reason: string }[] };
      assert.deepEqual(items.map((item) => item.reason).toSorted(), ["NoCapacity", "Started"]);
    });
    for (let index = 0; index < 5; index += 1) recorder.record(regarding, repeat);
    await eventually(async () => {
      const listed = await cluster.kubectl(["get", "events", "-n", namespace, "-o", "json"]);
      const { items } = JSON.parse(listed.stdout) as { items: { count: number }[] };
      assert.ok(items.some(({ count }) => count === 10));
    });
    await recorder[Symbol.asyncDispose]();

    const described = await cluster.kubectl(["describe", "pod", "machine", "-n", namespace]);
    assert.match(
      described.stdout,
      /Warning\s+NoCapacity\s+.*\(x10 over .*\)\s+test-controller\s+no node has room/,
    );
    assert.match(described.stdout, /Normal\s+Started\s+.*\s+test-controller\s+machine is up/);
    const wide = await cluster.kubectl(["get", "events", "-n", namespace, "-o", "wide"]);
    assert.match(
      wide.stdout,
      /NoCapacity\s+pod\/machine\s+test-controller, here\s+no node has room\s+\S+\s+10\s/,
    );
    const modern = await cluster.kubectl(["get", "events.v1.events.k8s.io", "-n", namespace, "-o", "json"]);
    const { items } = JSON.parse(modern.stdout) as {
      items: { reason: string; series?: { count: number }; reportingController: string }[];
    };
    const series = items.find((item) => item.reason === "NoCapacity");
    assert.equal(series?.series?.count, 10);
    assert.equal(series.reportingController, "test-controller");
  });
});
