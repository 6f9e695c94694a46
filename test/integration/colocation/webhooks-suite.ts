/** Every webhook through a real API server. */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { nodes, pods, type Pod } from "@cocoon/kube";
import { elasticQuotas, profiles, type RunningColocation } from "@cocoon/colocation";
import { eventually } from "@cocoon/testkit";
import {
  assertDone,
  signal,
  sharedCluster,
  unregister,
  startReplica,
  testSettings,
  type ColocationCluster,
} from "./cluster.ts";
import { compareStrategicMerges } from "./strategic-merges.ts";

export function webhooks(): void {
  describe("every webhook through a real API server", () => {
    const names = { mutating: "test-webhooks-mutating", validating: "test-webhooks-validating" };

    let world: ColocationCluster;
    let replica: RunningColocation;

    const gates =
      "NodeMutatingWebhook=true,NodeValidatingWebhook=true,ConfigMapValidatingWebhook=true,ReservationMutatingWebhook=true";

    before(async () => {
      world = await sharedCluster();
      replica = await startReplica(world, testSettings({ featureGates: gates, configurationNames: names }));
    });

    after(async () => {
      await unregister(world.client, names);
      await replica?.[Symbol.asyncDispose]();
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

    const bare = (namespace: string, name: string, more: { labels?: object; spec?: object } = {}) => ({
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name, namespace, labels: more.labels ?? {} },
      spec: { containers: [{ name: "c", image: "i" }], ...more.spec },
    });

    test("violations of QoS and priority are refused with readable text", async () => {
      await using namespace = await world.cluster.newNamespace();
      const labels = { "koordinator.sh/qosClass": "BE" };
      const refused = await apply(
        bare(namespace.name, "be", { labels, spec: { priorityClassName: "koord-prod" } }),
      );
      assert.notEqual(refused.code, 0);
      assert.match(
        refused.stderr,
        /koordinator\.sh\/qosClass=BE and priorityClass=koord-prod cannot be used in combination/,
      );
      assertDone(
        await apply(bare(namespace.name, "be", { labels, spec: { priorityClassName: "koord-batch" } })),
      );
      const changed = await world.cluster.kubectl([
        "-n",
        namespace.name,
        "label",
        "--overwrite",
        "pod",
        "be",
        "koordinator.sh/qosClass=LS",
      ]);
      assert.match(
        changed.stderr,
        /labels\.koordinator\.sh\/qosClass: Invalid value: "LS": field is immutable/,
      );
    });

    test("a node is amplified through real status updates, and a broken annotation never blocks one", async () => {
      const { cluster, client } = world;
      const ratio = "node.koordinator.sh/resource-amplification-ratio";
      const status = (cpu: string, memory: string) =>
        client.patch(
          nodes,
          {
            key: { name: "big" },
            patch: {
              type: "merge",
              body: { status: { capacity: { cpu, memory }, allocatable: { cpu, memory } } },
            },
          },
          { signal, subresource: "status" },
        );
      await client.create(nodes, { metadata: { name: "big" } }, { signal });
      await status("64", "256Gi");
      assertDone(await cluster.kubectl(["annotate", "node", "big", `${ratio}={"cpu":1.50,"memory":1.25}`]));
      const first = await status("64", "256Gi");
      assert.equal(first.status?.allocatable?.["cpu"], "96");
      assert.equal(first.status?.allocatable?.["memory"], "320Gi");
      assert.equal(first.status?.capacity?.["cpu"], "64", "capacity stays");
      assert.equal(
        first.metadata.annotations?.["node.koordinator.sh/raw-allocatable"],
        '{"cpu":"64","memory":"256Gi"}',
      );
      const second = await status("62", "256Gi");
      assert.equal(second.status?.allocatable?.["cpu"], "93");
      const refused = await cluster.kubectl(["annotate", "--overwrite", "node", "big", `${ratio}=broken`]);
      assert.match(refused.stderr, /must be a JSON object of numbers/);
      assertDone(await cluster.kubectl(["annotate", "node", "big", `${ratio}-`]));
      const third = await status("62", "256Gi");
      assert.equal(third.status?.allocatable?.["cpu"], "62");
    });

    test("a bad SLO configuration is refused, naming key and bound", async () => {
      const config = (text: string) => ({
        apiVersion: "v1",
        kind: "ConfigMap",
        metadata: {
          name: "slo-controller-config",
          namespace: "koordinator-system",
          labels: { "koordinator.sh/configmap-type": "slo-controller-config" },
        },
        data: { "resource-threshold-config": text },
      });
      const refused = await apply(config('{"clusterStrategy":{"cpuSuppressThresholdPercent":101}}'));
      assert.match(refused.stderr, /ResourceThresholdCfg\.ClusterStrategy\.CPUSuppressThresholdPercent/);
      assert.match(refused.stderr, /must be 100 or less/);
      assertDone(await apply(config('{"clusterStrategy":{"cpuSuppressThresholdPercent":65}}')));
    });

    test("a Reservation is changed by profiles, a quota gets parent and weight", async () => {
      const { client, cluster } = world;
      await using namespace = await cluster.newNamespace();
      const spec = {
        selector: { matchLabels: { pool: "offline" } },
        qosClass: "BE",
        priorityClassName: "koord-batch",
      };
      await client.create(profiles, { metadata: { name: "reserve-be" }, spec }, { signal });
      await eventually(async () => {
        const made = await cluster.kubectl(["create", "--dry-run=server", "-o", "json", "-f", "-"], {
          input: JSON.stringify({
            apiVersion: "scheduling.koordinator.sh/v1alpha1",
            kind: "Reservation",
            metadata: { name: "resv", labels: { pool: "offline" } },
            spec: {
              template: { spec: { containers: [{ name: "c", image: "i" }] } },
              owners: [{ labelSelector: { matchLabels: { a: "b" } } }],
            },
          }),
        });
        assertDone(made);
        const resv = JSON.parse(made.stdout) as {
          metadata: Pod["metadata"];
          spec: { ttl: string; template: { spec: { priority: number } } };
        };
        assert.equal(resv.metadata.labels?.["koordinator.sh/qosClass"], "BE");
        assert.equal(resv.spec.template.spec.priority, 5000);
        assert.equal(resv.spec.ttl, "24h");
      });
      const made = await client.create(
        elasticQuotas,
        {
          metadata: { name: "team-a", namespace: namespace.name },
          spec: { min: { cpu: "10" }, max: { cpu: "40" } },
        },
        { signal },
      );
      assert.equal(
        made.metadata.labels?.["quota.scheduling.koordinator.sh/parent"],
        "koordinator-root-quota",
      );
      assert.equal(
        made.metadata.annotations?.["quota.scheduling.koordinator.sh/shared-weight"],
        '{"cpu":"40"}',
      );
    });

    compareStrategicMerges(() => world);

    test("without a replica nodes still report their status", async () => {
      await replica[Symbol.asyncDispose]();
      const body = { status: { allocatable: { cpu: "3" } } };
      const target = { key: { name: "big" }, patch: { type: "merge", body } as const };
      const { status } = await world.client.patch(nodes, target, { signal, subresource: "status" });
      assert.equal(status?.allocatable?.["cpu"], "3");
    });
  });
}
