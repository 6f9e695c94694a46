/**
 * The operator with the real vk-cocoon on a real API server, scheduler and registry: a set comes up, scales, sleeps, wakes,
 * moves and goes. VMs are in memory; in the full tier also real guests under QEMU, whose counters must go on.
 */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { annotation, type CocoonSet } from "@cocoon/contract";
import { createLogger, createRegistry, isFault, silentLogger } from "@cocoon/core";
import { openKubeClient } from "@cocoon/kube";
import { fixedCredential, openRegistry } from "@cocoon/oci";
import { startOperator } from "@cocoon/operator";
import { eventually, fullTierOnly, ownControlPlane, temporaryDirectory } from "@cocoon/testkit";
import { demoImageName } from "@cocoon/images";
import type { VmRuntime } from "@cocoon/vm";
import { installCrds } from "../contract/install-crds.ts";
import { openQemuRuntimeIn } from "../vm/qemu-harness.ts";
import { openWorld, type TestVk, type World } from "../vk/test-vk.ts";
import { sets } from "./world.ts";

const cluster = await ownControlPlane();
after(() => cluster[Symbol.asyncDispose]());
await installCrds(cluster);
const timeoutMs = 300_000;

interface Stage {
  readonly world: World;
  readonly nodes: readonly [TestVk, TestVk];
  patch(body: object): Promise<void>;
  reaches(check: (set: CocoonSet) => void | Promise<void>): Promise<CocoonSet>;
  delete(): Promise<void>;
}

async function withOperator(
  world: World,
  nodes: readonly [TestVk, TestVk],
  play: (stage: Stage) => Promise<void>,
): Promise<void> {
  await using stack = new AsyncDisposableStack();
  const end = new AbortController();
  const { signal } = end;
  const namespace = world.namespace.name;
  const connection = stack.use(await openKubeClient({ kubeconfig: cluster.kubeconfigPath, signal }));
  const credentials = fixedCredential({ kind: "bearer", token: world.token });
  const registry = stack.use(openRegistry({ address: world.server.url, credentials }));
  const log = process.env["OPERATOR_TEST_LOG"]
    ? createLogger({ name: "operator", level: "debug" })
    : silentLogger;
  const metrics = createRegistry("test");
  stack.use(startOperator({ connection, client: connection, registry, namespace, log, metrics, signal }));
  stack.defer(() => end.abort());
  const key = { namespace, name: "atlas" };
  await play({
    world,
    nodes,
    patch: async (body) => {
      await connection.patch(sets, { key, patch: { type: "merge", body } }, { signal });
    },
    reaches: (check) =>
      eventually(
        async () => {
          const set = await connection.get(sets, key, { signal });
          await check(set);
          return set;
        },
        { timeoutMs, intervalMs: 200 },
      ),
    delete: async () => {
      await connection.delete(sets, key, { signal });
      await eventually(
        async () => {
          await assert.rejects(connection.get(sets, key, { signal }), (error) => isFault(error, "notFound"));
        },
        { timeoutMs },
      );
    },
  });
}

const isRunning = ({ status, metadata }: CocoonSet) => {
  assert.equal(status?.phase, "Running", JSON.stringify(status));
  assert.equal(status.observedGeneration, metadata.generation);
};

/** The same life for machines in memory and for real guests; `readCounter` returns how far a machine is. */
async function live(
  stage: Stage,
  image: string,
  readCounter: (pod: string) => Promise<number>,
): Promise<void> {
  const { world, nodes } = stage;
  const namespace = world.namespace.name;
  const resources = { requests: { cpu: "1", memory: "128Mi" } };
  const machine = { image, mode: "run", storage: "256Mi", resources };
  const set = {
    apiVersion: "cocoonset.cocoonstack.io/v1",
    kind: "CocoonSet",
    metadata: { name: "atlas" },
    spec: { agent: { ...machine, replicas: 1 }, toolboxes: [{ name: "box", ...machine }] },
  };
  await world.apply(set);
  await stage.reaches(isRunning);
  const before = await readCounter("atlas-0");
  await stage.patch({ spec: { agent: { replicas: 2 } } });
  const grown = await stage.reaches(isRunning);
  assert.equal(grown.status?.readyAgents, 3);
  assert.ok((await readCounter("atlas-2")) >= before, "a fork has the main agent's memory");

  await stage.patch({ spec: { suspend: true } });
  const asleep = await stage.reaches(({ status }) =>
    assert.equal(status?.phase, "Suspended", JSON.stringify(status)),
  );
  for (const { vmName = "", snapshotDigest } of asleep.status?.agents ?? [])
    assert.equal(snapshotDigest, await world.tagged(vmName, "hibernate"), vmName);
  await stage.patch({ spec: { suspend: false } });
  await stage.reaches(isRunning);
  const woken = await readCounter("atlas-0");
  assert.ok(woken >= before, `the counter went from ${before} to ${woken}`);

  const from = (await stage.reaches(isRunning)).status?.agents?.[0]?.nodeName;
  const to = nodes.find(({ name }) => name !== from)?.name ?? "";
  await stage.patch({ spec: { nodeName: to } });
  await stage.reaches((each) => {
    isRunning(each);
    assert.equal(each.status?.agents?.[0]?.nodeName, to);
  });
  assert.ok((await readCounter("atlas-0")) >= woken, "it goes on there");

  await stage.patch({ spec: { snapshotPolicy: "main-only" } });
  await eventually(async () => {
    const pod = await world.pod("atlas-2");
    assert.equal(pod?.metadata.annotations[annotation.snapshotPolicy], "main-only");
  });
  await stage.delete();
  const left = await Promise.all(
    ["0", "1", "2", "box"].map(async (name) => [
      await world.tagged(`vk-${namespace}-atlas-${name}`, "latest"),
      await world.tagged(`vk-${namespace}-atlas-${name}`, "hibernate"),
    ]),
  );
  assert.deepEqual(
    left.map(([latest, sleeping]) => [latest !== undefined, sleeping !== undefined]),
    [[true, false], ...Array.from({ length: 3 }, () => [false, false])],
  );
}

test("a set lives with the real kubelet, machines in memory", async () => {
  await using world = await openWorld(cluster);
  const nodes = [await world.newNode(), await world.newNode()] as const;
  await withOperator(world, nodes, (stage) => live(stage, "demo", () => Promise.resolve(0)));
});

test(
  "a set lives with the real kubelet and real guests, whose counters go on",
  fullTierOnly("real guests under emulation"),
  async () => {
    await using first = await temporaryDirectory();
    await using second = await temporaryDirectory();
    await using world = await openWorld(cluster);
    const runtimeIn = (path: string) => (): Promise<VmRuntime> =>
      openQemuRuntimeIn(path, { signal: AbortSignal.timeout(1_200_000) });
    const nodes = [
      await world.newNode({ runtime: runtimeIn(first.path) }),
      await world.newNode({ runtime: runtimeIn(second.path) }),
    ] as const;
    const inGuest = async (pod: string, ...command: string[]) => {
      const ran = await cluster.kubectl(["exec", pod, "-n", world.namespace.name, "--", ...command]);
      assert.equal(ran.code, 0, ran.stderr);
      return ran.stdout;
    };
    const script =
      "(i=0; while :; do i=$((i+1)); echo $i > /run/n.new; mv /run/n.new /run/n; sleep 0.1; done) >/dev/null 2>&1 </dev/null &";
    let started = false;
    const readCounter = async (pod: string) => {
      if (!started) await inGuest(pod, "sh", "-c", script);
      started = true;
      return eventually(async () => {
        const text = await inGuest(pod, "cat", "/run/n");
        assert.match(text, /^\d+\n$/);
        return Number(text);
      });
    };
    await withOperator(world, nodes, (stage) => live(stage, demoImageName, readCounter));
  },
);
