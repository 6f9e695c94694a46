/** What a node does about a registry that lost a part of a snapshot, or does not list its tags. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, request as sendRequest } from "node:http";
import type { AddressInfo } from "node:net";
import { PassThrough } from "node:stream";
import { text } from "node:stream/consumers";
import { test } from "node:test";
import { createLogger, createRegistry } from "@cocoon/core";
import { eventually, sharedControlPlane } from "@cocoon/testkit";
import { machinePod, mark, openWorld, runMachine, readMark, type TestVk, type World } from "./test-vk.ts";

const cluster = await sharedControlPlane();
const hibernate = "vm.cocoonstack.io/hibernate";
const timeoutMs = 60_000;
const signal = AbortSignal.timeout(300_000);

async function readState(world: World): Promise<string> {
  const { annotations = {} } = (await world.pod("demo"))?.metadata ?? {};
  return annotations["vm.cocoonstack.io/lifecycle-state"] ?? "";
}

async function reach(world: World, state: string): Promise<void> {
  await eventually(async () => assert.equal(await readState(world), state), { timeoutMs });
}

/** A machine that hibernated, and of which its node kept no local snapshot. */
async function hibernateMachine(world: World, node: TestVk): Promise<{ vmName: string; marked: string }> {
  const vmName = `vk-${world.namespace.name}-demo`;
  await world.apply(machinePod("demo", node.name, runMachine(vmName)));
  await reach(world, "ready");
  const marked = mark(node, vmName);
  await world.annotate("demo", `${hibernate}=true`);
  await reach(world, "hibernated");
  node.host.snapshots.clear();
  return { vmName, marked };
}

async function readEvents(world: World): Promise<string> {
  const done = await cluster.kubectl(["get", "events", "-n", world.namespace.name]);
  assert.equal(done.code, 0, done.stderr);
  return done.stdout;
}

for (const part of ["config", "layer"] as const)
  test(`a ${part} that the registry lost is damage: event, metric and log name it, nothing is booted`, async () => {
    await using world = await openWorld(cluster);
    const metrics = createRegistry("vk-cocoon");
    const destination = new PassThrough();
    const logged = text(destination);
    const log = createLogger({ name: "vk", destination, format: "json" });
    const node = await world.newNode({ changes: { metrics, log } });
    const { vmName, marked } = await hibernateMachine(world, node);
    const repository = world.registry.repository(vmName);
    const { digest, bytes } = await repository.getManifest("hibernate", { signal });
    const { config, layers } = JSON.parse(bytes.toString()) as {
      config: { digest: string; size: number };
      layers: { digest: string; size: number }[];
    };
    const lost = part === "config" ? config : layers.at(-1);
    assert.ok(lost);
    const content = await repository.readBlob(lost, { signal });
    await world.deleteBlob(vmName, lost.digest);

    await world.annotate("demo", `${hibernate}-`);
    await eventually(async () => assert.match(await readEvents(world), /SnapshotDamaged/), { timeoutMs });
    assert.match(await metrics.metrics(), /vk_cocoon_snapshot_damaged_total [1-9]/);
    assert.equal(node.host.vms.size, 0, "nothing is booted in its place");
    assert.equal(await world.tagged(vmName, "hibernate"), digest, "the manifest stays");

    const open = async function* () {
      yield content;
    };
    await repository.putBlob({ ...lost, open }, { signal });
    await reach(world, "ready");
    assert.equal(readMark(node, vmName), marked, "it wakes once the registry's storage is restored");
    await node.kill();
    destination.end();
    const line = (await logged)
      .split("\n")
      .find((each) => each.includes("snapshot in the registry is damaged"));
    assert.ok(line, "the log says so");
    const { level, vm, error } = JSON.parse(line) as Record<string, string>;
    assert.deepEqual([level, vm], ["error", vmName]);
    assert.match(error ?? "", new RegExp(vmName));
  });

/** Passes everything on to the registry, except tag lists while `refuses` is set. */
async function startListProxy(target: string): Promise<{ url: string; refuses: boolean } & AsyncDisposable> {
  const server = createServer((incoming, response) => {
    if (proxy.refuses && incoming.url?.includes("/tags/list")) {
      response.writeHead(405, { "content-type": "application/json" });
      response.end(JSON.stringify({ errors: [{ code: "UNSUPPORTED", message: "no tag lists here" }] }));
      return;
    }
    const { method, headers } = incoming;
    const outgoing = sendRequest(new URL(incoming.url ?? "/", target), { method, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(response);
    });
    outgoing.on("error", () => response.destroy());
    incoming.pipe(outgoing);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const proxy = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    refuses: false,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      await new Promise((done) => server.close(done));
    },
  };
  return proxy;
}

test("a registry that does not list tags: the machine waits and says why, and wakes once it does", async () => {
  await using stack = new AsyncDisposableStack();
  let proxy: Awaited<ReturnType<typeof startListProxy>> | undefined;
  const world = stack.use(
    await openWorld(cluster, async ({ url, token }) => {
      proxy = stack.use(await startListProxy(url));
      return { url: proxy.url, token };
    }),
  );
  const node = await world.newNode();
  const { vmName, marked } = await hibernateMachine(world, node);
  assert.ok(proxy);
  proxy.refuses = true;
  await world.annotate("demo", `${hibernate}-`);
  const reason = new RegExp(`does not list the tags of ${vmName}`);
  await eventually(
    async () => {
      const { annotations = {} } = (await world.pod("demo"))?.metadata ?? {};
      assert.match(annotations["vm.cocoonstack.io/lifecycle-state-message"] ?? "", reason);
      assert.match(await readEvents(world), reason);
    },
    { timeoutMs },
  );
  assert.equal(node.host.vms.size, 0);
  assert.ok(await world.tagged(vmName, "hibernated"), "the seal is not consumed");
  proxy.refuses = false;
  await reach(world, "ready");
  assert.equal(readMark(node, vmName), marked);
});
