/** The webhook, the API server and the certificates change under traffic: no pod is ever let in wrongly. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { annotation } from "@cocoon/contract";
import { getErrorMessage, sleep } from "@cocoon/core";
import { pods, secrets, type KubeConnection, type Pod } from "@cocoon/kube";
import { type OwnControlPlane, eventually, fullTierOnly, ownControlPlane } from "@cocoon/testkit";
import { startTestNodes } from "./nodes.ts";
import { machinePod, listPods } from "./objects.ts";
import { buildWorld, type WebhookWorld } from "./world.ts";

let cluster: OwnControlPlane;
let world: WebhookWorld;
const stack = new AsyncDisposableStack();
const signal = new AbortController().signal;
const patient = { timeoutMs: 180_000, intervalMs: 100 };
const env = { WEBHOOK_LAME_DUCK: "2s" };

const { skip } = fullTierOnly("a minute of traffic against a control plane of its own");

before(async () => {
  if (skip) return;
  cluster = stack.use(await ownControlPlane());
  world = stack.use(await buildWorld(cluster));
  stack.use(await startTestNodes({ client: world.client, names: ["node-a", "node-b"] }));
});
after(() => stack.disposeAsync());

interface Traffic {
  readonly created: string[];
  readonly failures: string[];
  /** Pods that were let in without what they must have. */
  readonly wrong: string[];
  stop(): Promise<void>;
}

function startTraffic(client: KubeConnection, namespace: string): Traffic {
  const traffic = { created: [] as string[], failures: [] as string[], wrong: [] as string[] };
  const stopping = new AbortController();
  let next = 0;
  const worker = async (): Promise<void> => {
    while (!stopping.signal.aborted) {
      const name = `p${(next += 1)}`;
      try {
        const pod = await client.create(pods, machinePod(namespace, name) as Pod, {
          signal,
          timeoutMs: 20_000,
        });
        const vmName = pod.metadata.annotations?.[annotation.vmName];
        if (vmName !== `vk-${namespace}-${name}` || !pod.spec?.nodeName)
          traffic.wrong.push(`${name}: ${vmName} on ${pod.spec?.nodeName}`);
        traffic.created.push(name);
      } catch (error) {
        traffic.failures.push(`${name}: ${getErrorMessage(error)}`);
      }
      await sleep(40, { signal: stopping.signal });
    }
  };
  const workers = [worker(), worker(), worker()];
  return {
    ...traffic,
    stop: async () => {
      stopping.abort();
      await Promise.all(workers);
    },
  };
}

test("restarts and rotation under traffic: zero wrong admissions", { timeout: 900_000, skip }, async (t) => {
  await using namespace = await world.cluster.newNamespace();
  const ns = namespace.name;
  const first = await world.addReplica("one", env);
  await world.addReplica("two", env);
  const traffic = startTraffic(world.client, ns);
  stack.defer(() => traffic.stop());
  const more = async (count: number) => {
    const from = traffic.created.length;
    await eventually(() => assert.ok(traffic.created.length >= from + count), patient);
  };
  await more(20);

  world.retire(first);
  await first.kill("SIGTERM");
  await more(10);
  const third = await world.addReplica("three", env);
  await more(20);
  assert.deepEqual(traffic.failures, [], "a replica that leaves and one that comes go unnoticed");

  const before = await world.client.get(
    secrets,
    { namespace: "cocoon-system", name: "cocoon-webhook-tls" },
    { signal },
  );
  await world.client.delete(secrets, { namespace: "cocoon-system", name: "cocoon-webhook-tls" }, { signal });
  await eventually(async () => {
    const key = { namespace: "cocoon-system", name: "cocoon-webhook-tls" };
    const now = await world.client.get(secrets, key, { signal });
    assert.notEqual(now.data?.["tls.crt"], before.data?.["tls.crt"]);
  }, patient);
  await more(20);
  assert.deepEqual(traffic.failures, [], "a new authority goes unnoticed");

  await cluster.stop("kube-apiserver", { hard: true });
  await sleep(500, { signal });
  await cluster.start();
  const missed = traffic.failures.length;
  await third.kill("SIGKILL");
  world.retire(third);
  await world.addReplica("four", env);
  await more(20);
  await traffic.stop();
  t.diagnostic(`${traffic.created.length} pods, ${missed} refused while the API server was away`);

  assert.deepEqual(traffic.wrong, []);
  const found = await listPods(world.client, ns);
  const names = found.map(({ vmName }) => vmName);
  assert.equal(new Set(names).size, names.length);
  for (const { name, vmName } of found) assert.equal(vmName, `vk-${ns}-${name}`);
  const held = new Set((await world.entries()).map(({ vmName }) => vmName));
  for (const name of names) assert.ok(held.has(name), `${name} is in the store`);
});
