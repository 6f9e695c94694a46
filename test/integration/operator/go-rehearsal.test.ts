/**
 * A migration rehearsed: machines that run and machines that are hibernated, with objects, ConfigMaps, registry contents and
 * annotations as the Go stack leaves them, are taken over by our operator, webhook and kubelet, used, and handed back.
 * Nothing is rebuilt and nothing is renamed.
 */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { annotation, hibernateTag, type CocoonSet, type CocoonSetStatus } from "@cocoon/contract";
import { createRegistry, silentLogger } from "@cocoon/core";
import { configMaps, namespaces, openKubeClient, pods, type Pod } from "@cocoon/kube";
import { startOperator } from "@cocoon/operator";
import { eventually, fullTierOnly, ownControlPlane } from "@cocoon/testkit";
import { installCrds } from "../contract/install-crds.ts";
import { openWorld } from "../vk/test-vk.ts";
import { buildWorld } from "../webhook/world.ts";
import { assertHibernatedForGo, assertMatchesForGo, stripToGoState } from "./go-state.ts";
import { hibernations, sets } from "./world.ts";

const cluster = await ownControlPlane();
after(() => cluster[Symbol.asyncDispose]());
const { signal } = new AbortController();
const timeoutMs = 180_000;
const machine = {
  image: "demo",
  mode: "run",
  storage: "256Mi",
  resources: { requests: { cpu: "1", memory: "128Mi" }, limits: { cpu: "1", memory: "128Mi" } },
};

test(
  "machines of a Go stack are taken over, used and handed back",
  fullTierOnly("a whole migration"),
  async () => {
    await installCrds(cluster);
    await using world = await openWorld(cluster);
    await using connection = await openKubeClient({ kubeconfig: cluster.kubeconfigPath, signal });
    const { registry } = world;
    const namespace = world.namespace.name;
    const go = { connection, registry, namespace };
    const node = await world.newNode({ format: "v2" });
    const startOurs = () => {
      const end = new AbortController();
      const metrics = createRegistry("rehearsal");
      const options = { connection, client: connection, registry, namespace, metrics, signal: end.signal };
      return Object.assign(startOperator({ ...options, log: silentLogger }), { stop: () => end.abort() });
    };
    const readSet = (name: string) => connection.get(sets, { namespace, name }, { signal });
    const reaches = (name: string, check: (status: CocoonSetStatus) => void): Promise<CocoonSet> =>
      eventually(
        async () => {
          const set = await readSet(name);
          check(set.status ?? {});
          assert.equal(set.status?.observedGeneration, set.metadata.generation);
          return set;
        },
        { timeoutMs, intervalMs: 200 },
      );
    const isIn = (phase: string) => (status: CocoonSetStatus) =>
      assert.equal(status.phase, phase, JSON.stringify(status));
    const suspend = async (name: string, wanted: boolean) => {
      const patch = { type: "merge", body: { spec: { suspend: wanted } } } as const;
      await connection.patch(sets, { key: { namespace, name }, patch }, { signal });
    };
    const listPods = async (): Promise<readonly Pod[]> =>
      (await connection.list(pods, { namespace, signal })).items;
    const hibernatesDeploymentPod = (phase: string, name: string) =>
      eventually(
        async () => {
          const { status } = await connection.get(hibernations, { namespace, name }, { signal });
          assert.equal(status?.phase, phase, JSON.stringify(status));
        },
        { timeoutMs, intervalMs: 200 },
      );

    // The state that a Go stack has: a running set, a suspended one, a Deployment's pod that a CocoonHibernation hibernates.
    const first = startOurs();
    const group = { apiVersion: "cocoonset.cocoonstack.io/v1", kind: "CocoonSet" };
    const toolboxes = [{ name: "box", ...machine }];
    await world.apply({
      ...group,
      metadata: { name: "atlas" },
      spec: { agent: { ...machine, replicas: 1 }, toolboxes },
    });
    await world.apply({ ...group, metadata: { name: "rest" }, spec: { agent: machine } });
    await world.apply(deploymentOfMachines(namespace));
    await reaches("atlas", isIn("Running"));
    await reaches("rest", isIn("Running"));
    node.vm(`vk-${namespace}-rest-0`).guest.write("/run/note", "before the migration");
    await suspend("rest", true);
    await reaches("rest", isIn("Suspended"));
    const web = await eventually(async () => {
      const found = (await listPods()).find(({ metadata }) => metadata.labels?.["app"] === "web");
      assert.equal(found?.metadata.annotations?.[annotation.lifecycleState], "ready");
      return found?.metadata.name ?? "";
    });
    const nap = { ...group, kind: "CocoonHibernation", metadata: { name: web } };
    await world.apply({ ...nap, spec: { podRef: { name: web }, desire: "Hibernate" } });
    await hibernatesDeploymentPod("Hibernated", web);
    first.stop();
    await first[Symbol.asyncDispose]();
    await node.kill();
    await stripToGoState(go, node);
    const reservation = {
      pool: "default",
      namespace,
      deployment: "web",
      slot: 0,
      vmName: `vk-${namespace}-web-0`,
      pod: web,
      node: node.name,
      updatedAt: new Date().toISOString(),
    };
    await storeReservation(reservation);

    const describePods = async () =>
      (await listPods())
        .map(
          ({ metadata }) => `${metadata.name} ${metadata.uid} ${metadata.annotations?.[annotation.vmName]}`,
        )
        .toSorted();
    const describeVms = () =>
      node
        .running()
        .map(({ vm }) => `${vm.name} ${vm.id} ${vm.epoch}`)
        .toSorted();
    const describeSnapshots = () =>
      Promise.all(["rest-0", "web-0"].map((name) => world.tagged(`vk-${namespace}-${name}`, hibernateTag)));
    const before = [await describePods(), describeVms(), await describeSnapshots()];
    assert.equal(describeVms().length, 3);

    // Taken over: each part of ours looked at everything, and nothing but its own records changed.
    await using webhooks = await buildWorld(cluster);
    await webhooks.addReplica("first");
    const ours = startOurs();
    await node.start();
    const isOurs = (phase: string) => (status: CocoonSetStatus) => {
      isIn(phase)(status);
      assert.equal(status.conditions?.find(({ type }) => type === "Degraded")?.status, "False");
    };
    await reaches("atlas", isOurs("Running"));
    await reaches("rest", isOurs("Suspended"));
    await hibernatesDeploymentPod("Hibernated", web);
    assert.deepEqual([await describePods(), describeVms(), await describeSnapshots()], before);
    const [entry] = (await webhooks.entries()).filter((each) => each.deployment === "web");
    assert.deepEqual([entry?.vmName, entry?.node, entry?.slot], [reservation.vmName, node.name, 0]);

    // Used: the suspended machine wakes where it was, another one is suspended, the Deployment's pod keeps its name.
    await suspend("rest", false);
    await reaches("rest", isIn("Running"));
    assert.equal(node.vm(`vk-${namespace}-rest-0`).guest.read("/run/note"), "before the migration");
    await suspend("atlas", true);
    await reaches("atlas", isIn("Suspended"));
    const wake = { type: "merge", body: { spec: { desire: "Wake" } } } as const;
    await connection.patch(hibernations, { key: { namespace, name: web }, patch: wake }, { signal });
    await hibernatesDeploymentPod("Active", web);
    assert.deepEqual(await describePods(), before[0], "no pod was replaced");

    // Handed back: what is stored is what the Go operator and the Go kubelet expect.
    ours.stop();
    await ours[Symbol.asyncDispose]();
    await node.kill();
    const stored = await listPods();
    for (const name of ["atlas", "rest"]) {
      const set = await readSet(name);
      const own = stored.filter(
        ({ metadata }) => metadata.labels?.["cocoonset.cocoonstack.io/name"] === name,
      );
      assert.equal(own.length, name === "atlas" ? 3 : 1);
      for (const pod of own) {
        assertMatchesForGo(set, pod);
        if (name === "atlas") await assertHibernatedForGo(go, set, pod);
        else assert.equal(pod.metadata.annotations?.[annotation.lifecycleState], "ready");
      }
    }
    const kept = (await webhooks.entries()).find((each) => each.deployment === "web");
    assert.equal(kept?.vmName, reservation.vmName);
  },
);

async function storeReservation(entry: {
  readonly pool: string;
  readonly namespace: string;
  readonly deployment: string;
  readonly slot: number;
}): Promise<void> {
  await using connection = await openKubeClient({ kubeconfig: cluster.kubeconfigPath, signal });
  await connection
    .create(namespaces, { metadata: { name: "cocoon-system" } }, { signal })
    .catch(() => undefined);
  const labels = { "app.kubernetes.io/managed-by": "cocoon-webhook", "cocoonstack.io/pool": entry.pool };
  const metadata = { namespace: "cocoon-system", name: `cocoon-affinity-${entry.pool}`, labels };
  const data = { [`${entry.namespace}.${entry.deployment}.${entry.slot}`]: JSON.stringify(entry) };
  await connection.create(configMaps, { metadata, data }, { signal });
}

function deploymentOfMachines(namespace: string): object {
  const labels = { app: "web" };
  const annotations = {
    [annotation.vmName]: `vk-${namespace}-web-0`,
    [annotation.managed]: "true",
    [annotation.mode]: "run",
    [annotation.image]: "demo",
    [annotation.os]: "linux",
  };
  return {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { name: "web" },
    spec: {
      replicas: 1,
      selector: { matchLabels: labels },
      template: {
        metadata: { labels, annotations },
        spec: {
          nodeSelector: { "cocoonstack.io/pool": "default" },
          tolerations: [{ key: "virtual-kubelet.io/provider", operator: "Exists" }],
          containers: [{ name: "agent", image: "demo" }],
        },
      },
    },
  };
}
