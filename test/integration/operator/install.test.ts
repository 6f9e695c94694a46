/**
 * The operator as its manifests install it, with the rights that they give it and no others, and with the older API,
 * `cocoon.cis/v1alpha1`, through the current machinery. On a control plane of its own: it has both groups.
 */
import assert from "node:assert/strict";
import { after, suite, test } from "node:test";
import { annotation, hibernateTag } from "@cocoon/contract";
import { configMaps, deployments, pods, resourceType, type KubeObject } from "@cocoon/kube";
import { migrateLegacy } from "@cocoon/operator";
import { eventually, ownControlPlane } from "@cocoon/testkit";
import { installCrds } from "../contract/install-crds.ts";
import { applyManifests, openAsOperator } from "./install-check.ts";
import { hibernations, openWorld, sets, buildSpec, type TestWorld } from "./world.ts";

const cluster = await ownControlPlane();
await applyManifests(cluster);
await installCrds(cluster, ["deploy/crds", "deploy/crd.yaml"]); // waits until they are served
const asOperator = await openAsOperator(cluster, new AbortController().signal);
after(async () => {
  await asOperator[Symbol.asyncDispose]();
  await cluster[Symbol.asyncDispose]();
});

interface Older extends KubeObject {
  readonly spec?: Record<string, unknown>;
  readonly status?: {
    readonly phase?: string;
    readonly message?: string;
    readonly snapshotRef?: string;
    readonly readyAgents?: number;
    readonly agents?: readonly { readonly snapshotRef?: string }[];
    readonly conditions?: readonly {
      readonly type: string;
      readonly status: string;
      readonly message: string;
    }[];
  };
}

const older = { group: "cocoon.cis", version: "v1alpha1", namespaced: true };
const legacySets = resourceType<Older>({ ...older, kind: "CocoonSet", plural: "cocoonsets" });
const legacyHibernations = resourceType<Older>({ ...older, kind: "Hibernation", plural: "hibernations" });

async function applied(world: TestWorld, object: object): Promise<void> {
  const done = await world.cluster.kubectl(["apply", "-n", world.namespace, "-f", "-"], {
    input: JSON.stringify(object),
  });
  assert.equal(done.code, 0, done.stderr);
}

type Check = (status: NonNullable<Older["status"]>) => void;

// oxlint-disable-next-line max-params -- which object of which kind, and what it should say
async function reaches(
  world: TestWorld,
  type: typeof legacySets,
  name: string,
  check: Check,
): Promise<Older> {
  return eventually(
    async () => {
      const object = await world.connection.get(
        type,
        { namespace: world.namespace, name },
        { signal: world.signal },
      );
      check(object.status ?? {});
      return object;
    },
    { timeoutMs: 60_000, intervalMs: 50 },
  );
}

const open = () =>
  openWorld(cluster, { operator: { legacyApi: true, connection: asOperator, client: asOperator } });

/** What the older documentation tells people to write. */
const sample = (world: TestWorld) => ({
  apiVersion: "cocoon.cis/v1alpha1",
  kind: "CocoonSet",
  metadata: { name: "demo" },
  spec: {
    nodeName: world.nodes[0],
    agent: { image: "team/base", replicas: 2, storage: "100G", resources: { cpu: "2", memory: "4Gi" } },
    toolboxes: [
      { name: "shell", os: "linux", image: "ubuntu:24.04", mode: "run" },
      { name: "win", os: "windows", mode: "static" },
    ],
  },
});

/** Sets of the older API know no pools: here they are told theirs by the current object. */
async function intoPool(world: TestWorld): Promise<void> {
  await eventually(async () => world.patch("demo", { spec: { nodePool: world.pool } }));
}

suite("installed", { concurrency: 4 }, () => {
  test("the documented sample comes up; the static machine waits for its address", async () => {
    await using world = await open();
    await applied(world, sample(world));
    await intoPool(world);
    const waiting = await reaches(world, legacySets, "demo", (status) => {
      assert.equal(status.readyAgents, 3);
      const known = status.conditions?.find(({ type }) => type === "AddressesKnown");
      assert.equal(known?.status, "False", JSON.stringify(status));
      assert.match(known.message, /win/);
    });
    assert.equal(waiting.status?.phase, "Scaling");
    const main = await world.pod("demo-0");
    assert.equal(
      main?.metadata.annotations?.["cocoon.cis/vm-name"],
      world.vmName("demo-0"),
      "older keys too",
    );
    assert.equal(main?.metadata.labels?.["cocoon.cis/cocoonset"], "demo");
    const told = await world.cluster.kubectl([
      "annotate",
      "pod",
      "demo-win",
      "-n",
      world.namespace,
      "cocoon.cis/vm-id=q-7",
      "cocoon.cis/ip=10.0.0.7",
      `${annotation.vmId}=q-7`,
      `${annotation.ip}=10.0.0.7`,
    ]);
    assert.equal(told.code, 0, told.stderr);
    await reaches(world, legacySets, "demo", (status) =>
      assert.equal(status.phase, "Running", JSON.stringify(status)),
    );

    await world.connection.patch(
      legacySets,
      {
        key: { namespace: world.namespace, name: "demo" },
        patch: { type: "merge", body: { spec: { suspend: true } } },
      },
      { signal: world.signal },
    );
    const asleep = await reaches(world, legacySets, "demo", (status) =>
      assert.equal(status.phase, "Suspended"),
    );
    assert.match(asleep.status?.agents?.[0]?.snapshotRef ?? "", /demo-0:hibernate$/);
    await world.connection.delete(
      legacySets,
      { namespace: world.namespace, name: "demo" },
      { signal: world.signal },
    );
    await eventually(async () => assert.deepEqual(await world.podNames(), []), { timeoutMs: 60_000 });
    assert.deepEqual(world.kubelet.violations, []);
  });

  test("of two Hibernations for one pod the older decides, and a patch wakes", async () => {
    await using world = await open();
    await world.apply("s", buildSpec(world));
    await world.reaches("s", (status) => assert.equal(status.phase, "Running"));
    const nap = (name: string, action: string) => ({
      apiVersion: "cocoon.cis/v1alpha1",
      kind: "Hibernation",
      metadata: { name },
      spec: { podName: "s-0", action },
    });
    await applied(world, nap("a-nap", "hibernate"));
    await applied(world, nap("b-nap", "wake"));
    const done = await reaches(world, legacyHibernations, "a-nap", (status) =>
      assert.equal(status.phase, "Hibernated"),
    );
    assert.match(done.status?.snapshotRef ?? "", /s-0:hibernate$/);
    await reaches(world, legacyHibernations, "b-nap", (status) =>
      assert.match(status.message ?? "", /a-nap is older/),
    );
    const patched = await world.cluster.kubectl(
      `patch hibernations.cocoon.cis a-nap -n ${world.namespace} --type merge -p {"spec":{"action":"wake"}}`.split(
        " ",
      ),
    );
    assert.equal(patched.code, 0, patched.stderr);
    await reaches(world, legacyHibernations, "a-nap", (status) => assert.equal(status.phase, "Active"));
    assert.ok(world.kubelet.vms.has(world.vmName("s-0")));
    assert.deepEqual(world.kubelet.violations, []);
  });

  test("a Deployment's replica sleeps and wakes through both APIs", async () => {
    await using world = await open();
    const { namespace, signal, connection, pool } = world;
    const vmName = world.vmName("web-0");
    const labels = { app: "web" };
    await connection.create(
      deployments,
      {
        metadata: { namespace, name: "web" },
        spec: {
          replicas: 1,
          selector: { matchLabels: labels },
          template: {
            metadata: { labels, annotations: { [annotation.vmName]: vmName, [annotation.managed]: "true" } },
            spec: {
              nodeSelector: { "cocoonstack.io/pool": pool },
              tolerations: [{ key: "virtual-kubelet.io/provider", operator: "Exists" }],
              containers: [{ name: "agent", image: "x" }],
            },
          },
        },
      },
      { signal },
    );
    const pod = await eventually(async () => {
      assert.ok(world.kubelet.vms.has(vmName));
      const { items } = await connection.list(pods, { namespace, signal });
      return items[0]?.metadata.name ?? "";
    });
    const nap = (action: string) =>
      applied(world, {
        apiVersion: "cocoon.cis/v1alpha1",
        kind: "Hibernation",
        metadata: { name: "nap" },
        spec: { podName: pod, action },
      });
    await nap("hibernate");
    await reaches(world, legacyHibernations, "nap", (status) => assert.equal(status.phase, "Hibernated"));
    await nap("wake");
    await reaches(world, legacyHibernations, "nap", (status) => assert.equal(status.phase, "Active"));
    await connection.delete(legacyHibernations, { namespace, name: "nap" }, { signal });
    await eventually(
      async () => assert.equal((await connection.list(hibernations, { namespace, signal })).items.length, 0),
      { timeoutMs: 60_000 },
    );
    await world.apply(pod, { podRef: { name: pod }, desire: "Hibernate" }, hibernations);
    await world.hibernationReaches(pod, "Hibernated");
    await world.patch(pod, { spec: { desire: "Wake" } }, hibernations);
    await world.hibernationReaches(pod, "Active");
    assert.deepEqual(world.kubelet.violations, []);
  });

  test("a set lives and goes with the rights of the manifests alone", async () => {
    await using world = await open();
    const spec = { toolboxes: [{ name: "box", image: "x" }], ttl: "1h" };
    await world.apply("r", buildSpec(world, spec, { replicas: 1 }));
    await world.reaches("r", (status) => assert.equal(status.phase, "Running"));
    await world.patch("r", { spec: { suspend: true } });
    await world.reaches("r", (status) => assert.equal(status.phase, "Suspended"));
    await world.patch("r", { spec: { suspend: false } });
    await world.reaches("r", (status) => {
      assert.equal(status.phase, "Running");
      assert.equal(status.conditions?.find(({ type }) => type === "Degraded")?.status, "False");
    });
    await world.connection.delete(sets, { namespace: world.namespace, name: "r" }, { signal: world.signal });
    await eventually(async () => assert.deepEqual(await world.podNames(), []), { timeoutMs: 60_000 });
    const told = await eventually(async () => {
      const events = await world.events();
      assert.ok(events.includes("CocoonSet/r Suspended"), events.join());
      return events;
    });
    assert.ok(told.length > 0);
  });

  test("older objects are taken over for good, and their machines go on", async () => {
    await using world = await open();
    const { namespace, signal, connection } = world;
    await applied(world, { ...sample(world), spec: { agent: { image: "team/base" } } });
    await intoPool(world);
    await reaches(world, legacySets, "demo", (status) => assert.equal(status.phase, "Running"));
    const uid = (await world.pod("demo-0"))?.metadata.uid;
    const options = { client: connection, namespace, signal };
    const [planned] = await migrateLegacy({ ...options, dryRun: true });
    assert.match(planned ?? "", /demo: would be taken over/);
    assert.match((await migrateLegacy(options))[0] ?? "", /stands on its own/);
    assert.deepEqual(await migrateLegacy(options), []);
    await world.patch("demo", { spec: { agent: { replicas: 1 } } });
    await world.reaches("demo", (status) => assert.equal(status.readyAgents, 2));
    assert.equal((await world.pod("demo-0"))?.metadata.uid, uid, "the very same machine");
  });

  test("a sleep that only the older record proves is taken over", async () => {
    await using world = await open();
    await world.apply("o", buildSpec(world));
    await world.reaches("o", (status) => assert.equal(status.phase, "Running"));
    const vmName = world.vmName("o-0");
    // As the older kubelet left it: the copy under another tag, the record in a ConfigMap.
    world.kubelet.silent = true;
    const repository = world.registry.repository(vmName);
    await world.kubelet.pushCopy(vmName, "old-nap");
    const { namespace, signal } = world;
    const data = { [vmName]: `registry.example/${vmName}:old-nap` };
    await world.connection.create(
      configMaps,
      { metadata: { namespace, name: "cocoon-vm-snapshots" }, data },
      { signal },
    );
    await applied(world, {
      apiVersion: "cocoon.cis/v1alpha1",
      kind: "Hibernation",
      metadata: { name: "nap" },
      spec: { podName: "o-0" },
    });
    const digest = (await repository.headManifest("old-nap", { signal }))?.digest;
    await eventually(async () => assert.equal(await world.digest(vmName, hibernateTag), digest));
    world.kubelet.speak();
    await reaches(world, legacyHibernations, "nap", (status) => assert.equal(status.phase, "Hibernated"));
  });
});
