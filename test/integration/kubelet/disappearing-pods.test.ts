/** Pods that are gone from the API server without a deletion that the kubelet could act on. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Fault } from "@cocoon/core";
import { eventually, ownControlPlane, sharedControlPlane, type TestCluster } from "@cocoon/testkit";
import { kubeconfigVia } from "../kube-client/access.ts";
import { startTcpProxy } from "../kube-client/tcp-proxy.ts";
import type { FakeProvider } from "./fake-provider.ts";
import { podSpec, startNode } from "./start-node.ts";

/** A namespace with pods that are bound to one node. */
class Stage {
  readonly #cluster: TestCluster;
  readonly #namespace: string;

  constructor(cluster: TestCluster, namespace: string) {
    this.#cluster = cluster;
    this.#namespace = namespace;
  }

  async kubectl(...args: string[]): Promise<string> {
    const result = await this.#cluster.kubectl(["-n", this.#namespace, ...args]);
    assert.equal(result.code, 0, result.stderr);
    return result.stdout;
  }

  async createPod(nodeName: string, name: string): Promise<void> {
    const spec = { ...podSpec(nodeName), nodeName };
    const input = JSON.stringify({ apiVersion: "v1", kind: "Pod", metadata: { name }, spec });
    const made = await this.#cluster.kubectl(["create", "-n", this.#namespace, "-f", "-"], { input });
    assert.equal(made.code, 0, made.stderr);
    await eventually(async () => {
      assert.equal(await this.kubectl("get", "pod", name, "-o", "jsonpath={.status.phase}"), "Running");
    });
  }

  /** On a node with a NoExecute taint the cluster's own eviction may be faster, which is as good. */
  forceDelete(name: string): Promise<string> {
    return this.kubectl("delete", "pod", name, "--force", "--grace-period=0", "--ignore-not-found");
  }

  /** As the pod garbage collector does it: marked as failed and disrupted, then removed at once. */
  async collect(name: string): Promise<void> {
    const condition = {
      type: "DisruptionTarget",
      status: "True",
      reason: "DeletionByPodGC",
      message: "PodGC",
    };
    const patch = JSON.stringify({ status: { phase: "Failed", conditions: [condition] } });
    await this.kubectl("patch", "pod", name, "--subresource=status", "--type=strategic", "-p", patch);
    await this.forceDelete(name);
  }

  annotation(provider: FakeProvider, name: string, key: string): string | undefined {
    return provider.pods.get(`${this.#namespace}/${name}`)?.metadata.annotations?.[key];
  }
}

const sorted = (calls: readonly string[]): readonly string[] => calls.toSorted();

test("a provider deletes only on request, and learns what is known of pods that disappeared", async () => {
  const cluster = await sharedControlPlane();
  await using namespace = await cluster.newNamespace();
  const stage = new Stage(cluster, namespace.name);
  await using node = await startNode(cluster);
  const { provider } = node;
  for (const name of ["forced", "graceful", "asked-first", "collected"])
    await stage.createPod(node.name, name);
  provider.calls.length = 0;

  await stage.forceDelete("forced");
  await eventually(() => assert.deepEqual(provider.calls, ["disappeared forced: forceDeleted"]));

  await stage.kubectl("delete", "pod", "graceful", "--wait=false");
  await eventually(() => assert.deepEqual(provider.calls.slice(1), ["delete graceful"]));

  // A deletion that was requested stays one when the pod is removed by force before it is done.
  provider.failDelete = new Fault("unavailable", "snapshot not pushed");
  await stage.kubectl("delete", "pod", "asked-first", "--wait=false");
  await eventually(() => assert.ok(provider.calls.includes("delete asked-first")));
  await stage.forceDelete("asked-first");
  provider.failDelete = undefined;
  await eventually(() => assert.ok(!provider.pods.has(`${namespace.name}/asked-first`)));
  assert.ok(!provider.calls.some((call) => call.startsWith("disappeared asked-first")));

  provider.calls.length = 0;
  await stage.collect("collected");
  await eventually(() => assert.deepEqual(provider.calls, ["disappeared collected: unknown"]));
  const conditions = provider.disappeared.at(-1)?.status?.conditions ?? [];
  assert.equal(
    conditions.find(({ type }) => type === "DisruptionTarget")?.reason,
    "DeletionByPodGC",
    "the last seen conditions reach the provider",
  );
});

test("a node that was cut off and fenced takes nothing of that time for a user's deletion", async () => {
  const cluster = await sharedControlPlane();
  await using namespace = await cluster.newNamespace();
  const stage = new Stage(cluster, namespace.name);
  await using proxy = await startTcpProxy(cluster.server);
  await using kubeconfig = await kubeconfigVia(cluster, proxy.url);
  await using node = await startNode(cluster, { kubeconfig: kubeconfig.path });
  const { provider } = node;
  for (const name of ["collected", "forced", "evicted"]) await stage.createPod(node.name, name);
  provider.calls.length = 0;
  proxy.close();
  const fence = "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute";
  await stage.kubectl("taint", "node", node.name, fence);
  await stage.collect("collected");
  await stage.forceDelete("forced");
  await stage.kubectl("delete", "pod", "evicted", "--wait=false");
  await stage.forceDelete("evicted");
  proxy.open();
  await eventually(() =>
    assert.deepEqual(sorted(provider.calls), [
      "disappeared collected: unknown",
      "disappeared evicted: unknown",
      "disappeared forced: unknown",
    ]),
  );
});

test(
  "etcd restored from an older copy, then empty: no pod is deleted, and what is there is worked on",
  { timeout: 600_000 },
  async () => {
    await using cluster = await ownControlPlane();
    const stage = new Stage(cluster, "default");
    await eventually(() => stage.kubectl("get", "serviceaccount", "default"));
    await using node = await startNode(cluster);
    const { provider } = node;
    await stage.createPod(node.name, "older");
    const backup = await cluster.backUpEtcd();
    await stage.createPod(node.name, "newer");
    // The provider gets to know a much newer version of the pod than the restored one.
    for (let round = 0; round < 20; round += 1)
      await stage.kubectl("annotate", "pod", "older", "--overwrite", `round=${round}`);
    await eventually(() => assert.equal(stage.annotation(provider, "older", "round"), "19"));
    provider.calls.length = 0;
    await cluster.restoreEtcd(backup);
    await eventually(() => {
      assert.deepEqual(sorted(provider.calls), ["disappeared newer: unknown", "update older"]);
      assert.equal(stage.annotation(provider, "older", "round"), undefined);
    });
    await stage.kubectl("annotate", "pod", "older", "note=after");
    await eventually(() => assert.equal(stage.annotation(provider, "older", "note"), "after"));

    provider.calls.length = 0;
    await cluster.restoreEtcd(undefined);
    await eventually(() => assert.deepEqual(provider.calls, ["disappeared older: unknown"]));
    await eventually(() => stage.kubectl("get", "node", node.name));
  },
);
