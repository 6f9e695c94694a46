/** Both pod mutators on one API server, each before the other: the API server calls them by the names of the configurations. */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { annotation, hostTaint } from "@cocoon/contract";
import { mutatingWebhookConfigurations, pods, type Pod } from "@cocoon/kube";
import { profiles, type RunningColocation } from "@cocoon/colocation";
import { startTestNodes } from "../webhook/nodes.ts";
import { apply, buildDeployment, machinePod } from "../webhook/objects.ts";
import { buildWorld, type WebhookWorld } from "../webhook/world.ts";
import {
  sharedCluster,
  signal,
  startReplica,
  testSettings,
  unregister,
  type ColocationCluster,
} from "./cluster.ts";

/** The machine webhook is `cocoon-webhook-mutate`. */
const orders = { "colocation first": "a-colocation", "colocation last": "z-colocation" } as const;

const away = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

export function chaining(): void {
  describe("both pod mutators, in either order", () => {
    const stack = new AsyncDisposableStack();
    let world: ColocationCluster;
    let machines: WebhookWorld;

    before(async () => {
      world = await sharedCluster();
      machines = stack.use(await buildWorld(world.cluster));
      const { client } = world;
      const offers = { cpu: "64", memory: "64Gi" };
      stack.use(await startTestNodes({ client, names: ["chain-a"], capacity: offers }));
      const batch = { "kubernetes.io/batch-cpu": "64k", "kubernetes.io/batch-memory": "64Gi" };
      stack.use(await startTestNodes({ client, names: ["chain-b"], capacity: { ...offers, ...batch } }));
      await Promise.all([machines.addReplica("one"), machines.addReplica("two")]);
      await client.create(profiles, batchMachines, { signal });
    });

    after(async () => {
      await world.cluster.kubectl(["delete", "mutatingwebhookconfiguration", "cocoon-webhook-mutate"]);
      await world.cluster.kubectl(["delete", "validatingwebhookconfiguration", "cocoon-webhook-validate"]);
      await stack.disposeAsync();
    });

    async function admitted(mutating: string, bare: (namespace: string) => object): Promise<Pod> {
      const names = { mutating, validating: `${mutating}-validating` };
      const settings = testSettings({ configurationNames: names });
      await using _colocation: RunningColocation = await startReplica(world, settings);
      await using namespace = await world.cluster.newNamespace();
      try {
        await apply(world.cluster, bare(namespace.name));
        const pod = await world.client.get(pods, { namespace: namespace.name, name: "box" }, { signal });
        const held = (await machines.entries()).filter((each) => each.namespace === namespace.name);
        assert.deepEqual(
          held.map(({ vmName, node }) => ({ vmName, node })),
          [{ vmName: `vk-${namespace.name}-box`, node: pod.spec?.nodeName ?? "" }],
          "one reservation, where the pod is",
        );
        return comparable(pod, namespace.name);
      } finally {
        await unregister(world.client, names);
      }
    }

    test("a machine that a profile names is the same pod, with one reservation", async () => {
      const machine = (namespace: string) => ({
        ...machinePod(namespace, "box", {
          containers: [{ name: "agent", image: "example.com/box:1", resources }],
        }),
        metadata: { namespace, name: "box", labels: { tier: "batch", who: "me" } },
      });
      const first = await admitted(orders["colocation first"], machine);
      const last = await admitted(orders["colocation last"], machine);
      assert.deepEqual(last, first);

      assert.equal(first.spec?.nodeName, "chain-b", "where there is batch CPU");
      assert.deepEqual(first.spec.containers[0]?.resources?.requests, {
        "kubernetes.io/batch-cpu": "1500",
        "kubernetes.io/batch-memory": "1Gi",
      });
      assert.deepEqual(first.metadata.labels?.["was"], "me");
      assert.equal(first.metadata.annotations?.[annotation.os], "windows");
      const tolerated = first.spec.tolerations?.filter(({ key }) => away.includes(key ?? ""));
      assert.deepEqual(
        tolerated?.map(({ key, tolerationSeconds }) => [key, tolerationSeconds]),
        away.map((key) => [key, undefined]),
      );
    });

    test("a machine that no profile names is left alone by colocation", async () => {
      const machine = (namespace: string) =>
        machinePod(namespace, "box", {
          nodeSelector: { "kubernetes.io/hostname": "chain-a" },
          containers: [{ name: "agent", image: "example.com/box:1", resources }],
        });
      const first = await admitted(orders["colocation first"], machine);
      assert.deepEqual(await admitted(orders["colocation last"], machine), first);
      assert.deepEqual(first.spec?.containers[0]?.resources?.requests, { cpu: "1500m", memory: "1Gi" });
      assert.equal(first.metadata.labels?.["koordinator.sh/qosClass"], undefined);
    });

    test("both are called again when the other changed the pod", async () => {
      const { webhooks = [] } = await world.client.get(
        mutatingWebhookConfigurations,
        { name: "cocoon-webhook-mutate" },
        { signal },
      );
      assert.deepEqual(
        webhooks.map((each) => (each as { reinvocationPolicy?: string }).reinvocationPolicy),
        ["IfNeeded", "IfNeeded"],
      );
    });

    test("a Deployment of machines reviewed twice holds one name for each replica", async () => {
      const names = { mutating: orders["colocation last"], validating: "z-colocation-validating" };
      await using _colocation = await startReplica(world, testSettings({ configurationNames: names }));
      await using namespace = await world.cluster.newNamespace();
      try {
        const replicas = 12;
        const object = buildDeployment(namespace.name, { name: "demo", replicas }) as {
          spec: { template: { metadata: { labels: object } } };
        };
        object.spec.template.metadata.labels = { app: "demo", tier: "batch", who: "me" };
        await apply(world.cluster, object);
        const rollout = await world.cluster.kubectl([
          "-n",
          namespace.name,
          "rollout",
          "status",
          "deployment/demo",
          "--timeout=90s",
        ]);
        assert.equal(rollout.code, 0, rollout.stderr);
        const held = (await machines.entries()).filter((each) => each.namespace === namespace.name);
        const wanted = Array.from({ length: replicas }, (_, slot) => `vk-${namespace.name}-demo-${slot}`);
        assert.deepEqual(held.map(({ vmName }) => vmName).toSorted(), wanted.toSorted());
      } finally {
        await unregister(world.client, names);
      }
    });
  });
}

const resources = { requests: { cpu: "1500m", memory: "1Gi" }, limits: { cpu: "1500m", memory: "1Gi" } };

/** It replaces lists, feeds on labels it changes, and says what the machine webhook would say otherwise. */
const batchMachines = {
  metadata: { name: "batch-machines" },
  spec: {
    selector: { matchLabels: { tier: "batch" } },
    labels: { who: "you" },
    labelKeysMapping: { was: "before" },
    annotations: { [annotation.os]: "windows" },
    qosClass: "BE",
    priorityClassName: "koord-batch",
    patch: {
      metadata: { labels: { was: "me" } },
      spec: {
        tolerations: [
          { key: hostTaint.key, operator: "Exists" },
          { key: "batch", operator: "Exists" },
        ],
      },
    },
  },
};

/** What is different with every pod, regardless of the replica that admits it. */
function comparable({ metadata, spec }: Pod, namespace: string): Pod {
  const {
    [annotation.reservation]: _claim,
    [annotation.admission]: _note,
    "colocation.cocoonstack.io/before-profiles": _before,
    ...annotations
  } = metadata.annotations ?? {};
  const text = JSON.stringify({ metadata: { labels: metadata.labels, annotations }, spec });
  const volume = /kube-api-access-\w+/g;
  return JSON.parse(text.replaceAll(namespace, "NAMESPACE").replaceAll(volume, "token")) as Pod;
}
