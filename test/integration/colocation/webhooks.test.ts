/** Every webhook through a real API server. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { pods, type Pod } from "@cocoon/kube";
import { profiles, type RunningColocation } from "@cocoon/colocation";
import { eventually } from "@cocoon/testkit";
import {
  assertDone,
  signal,
  startCluster,
  startReplica,
  testSettings,
  type ColocationCluster,
} from "./cluster.ts";

let world: ColocationCluster;
let replica: RunningColocation;

const gates =
  "NodeMutatingWebhook=true,NodeValidatingWebhook=true,ConfigMapValidatingWebhook=true,ReservationMutatingWebhook=true";

before(async () => {
  world = await startCluster();
  replica = await startReplica(world.client, testSettings({ featureGates: gates }));
});

after(async () => {
  await replica?.[Symbol.asyncDispose]();
  await world?.[Symbol.asyncDispose]();
});

const apply = (manifest: unknown) =>
  world.cluster.kubectl(["apply", "-f", "-"], { input: JSON.stringify(manifest) });

test("a profile turns a Deployment's pods into batch pods with translated resources", async () => {
  const { cluster, client } = world;
  await using namespace = await cluster.newNamespace();
  assertDone(await cluster.kubectl(["label", "namespace", namespace.name, "team=data"]));
  await client.create(
    profiles,
    {
      metadata: { name: "spark-be" },
      spec: {
        namespaceSelector: { matchLabels: { team: "data" } },
        selector: { matchLabels: { workload: "spark" } },
        qosClass: "BE",
        priorityClassName: "koord-batch",
        koordinatorPriority: 1000,
        schedulerName: "koord-scheduler",
        labels: { tier: "offline" },
        annotations: { by: "spark-be" },
      },
    },
    { signal },
  );
  const template = {
    metadata: { labels: { workload: "spark" } },
    spec: {
      containers: [
        {
          name: "main",
          image: "spark",
          resources: { requests: { cpu: "1500m", memory: "2Gi" }, limits: { cpu: "4", memory: "3Gi" } },
        },
      ],
    },
  };
  assertDone(
    await apply({
      apiVersion: "apps/v1",
      kind: "Deployment",
      metadata: { name: "exec", namespace: namespace.name },
      spec: { replicas: 2, selector: { matchLabels: { workload: "spark" } }, template },
    }),
  );
  const made = await eventually(
    async () => {
      const { items } = await client.list(pods, { namespace: namespace.name, signal });
      assert.equal(items.length, 2);
      return items;
    },
    { timeoutMs: 60_000 },
  );
  for (const pod of made) assertBatchPod(pod);
});

function assertBatchPod({ metadata, spec }: Pod): void {
  assert.equal(metadata.labels?.["koordinator.sh/qosClass"], "BE");
  assert.equal(metadata.labels?.["koordinator.sh/priority"], "1000");
  assert.equal(metadata.labels?.["tier"], "offline");
  assert.equal(spec?.priority, 5000);
  assert.equal(spec?.schedulerName, "koord-scheduler");
  assert.deepEqual(spec?.containers[0]?.resources, {
    requests: { "kubernetes.io/batch-cpu": "1500", "kubernetes.io/batch-memory": "2Gi" },
    limits: { "kubernetes.io/batch-cpu": "4k", "kubernetes.io/batch-memory": "3Gi" },
  });
  assert.equal(
    metadata.annotations?.["node.koordinator.sh/extended-resource-spec"],
    '{"containers":{"main":{"limits":{"kubernetes.io/batch-cpu":"4k","kubernetes.io/batch-memory":"3Gi"},"requests":{"kubernetes.io/batch-cpu":"1500","kubernetes.io/batch-memory":"2Gi"}}}}',
  );
}
