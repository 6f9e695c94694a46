/** Machines that run before they are asked for, and pauses that are answered before the push. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { gatewayKey } from "@cocoon/contract";
import { eventually, ownControlPlane } from "@cocoon/testkit";
import { Sandbox } from "e2b";
import { limits, openGatewayWorld, type GatewayWorld } from "./world.ts";

/** Guests are emulated, and each look is a kubectl. */
const slowly = { timeoutMs: 240_000, intervalMs: 1_000 };
const cluster = await ownControlPlane();
let world: GatewayWorld;
let options: {
  apiKey: string;
  apiUrl: string;
  sandboxUrl: string;
  requestTimeoutMs: number;
  timeoutMs: number;
};

before(async () => {
  world = await openGatewayWorld(cluster);
  const { url } = (await world.newGateway({ limits: { ...limits, warmPool: 1 } })).server;
  options = {
    ...world.connection,
    apiUrl: url,
    sandboxUrl: url,
    requestTimeoutMs: 240_000,
    timeoutMs: 3_600_000,
  };
});

after(async () => {
  await world[Symbol.asyncDispose]();
  await cluster[Symbol.asyncDispose]();
});

async function listPool(): Promise<string[]> {
  const format = `jsonpath={range .items[*]}{.metadata.name} {.metadata.annotations}{"\\n"}{end}`;
  const selected = ["-n", world.namespace, "-l", gatewayKey.pool];
  const shown = await cluster.kubectl(["get", "cocoonsets", ...selected, "-o", format]);
  assert.equal(shown.code, 0, shown.stderr);
  const lines = shown.stdout.split("\n").filter((line) => line.includes(`"${gatewayKey.poolReady}":"true"`));
  return lines.map((line) => line.split(" ", 1)[0] ?? "");
}

test("a create takes a machine that runs already, with its own environment and end, and the pool is filled again", async () => {
  const first = await Sandbox.create(options); // boots the template
  await eventually(async () => {
    const saved = await cluster.kubectl([
      "get",
      "cocoonsets",
      "-n",
      world.namespace,
      "-l",
      gatewayKey.template,
    ]);
    assert.match(saved.stdout, /Suspended/);
  }, slowly);
  const second = await Sandbox.create(options); // a clone; fills the pool
  await eventually(async () => assert.equal((await listPool()).length, 1), slowly);
  const [waiting = ""] = await listPool();
  const third = await Sandbox.create({ ...options, envs: { A: "1" }, metadata: { purpose: "warm" } });
  assert.equal(third.sandboxId, waiting);
  assert.equal((await third.commands.run("echo $A $E2B_SANDBOX_ID")).stdout, `1 ${waiting}\n`);
  const info = await third.getInfo();
  assert.deepEqual([info.metadata, info.state], [{ purpose: "warm" }, "running"]);
  assert.ok(info.endAt.getTime() - Date.now() > 3_000_000);
  await eventually(async () => assert.notEqual((await listPool())[0] ?? waiting, waiting), slowly);
  const ids = await Promise.all([Sandbox.create(options), Sandbox.create(options)]);
  assert.equal(new Set(ids.map(({ sandboxId }) => sandboxId)).size, 2);
  for (const each of [first, second, third, ...ids]) assert.equal(await each.kill(), true);
});

test("a pause that is followed by a connect at once keeps processes, and the next pause does too", async () => {
  const sandbox = await Sandbox.create(options);
  const process = await sandbox.commands.run("sleep 100000", { background: true, timeoutMs: 0 });
  for (let round = 0; round < 2; round += 1) {
    await sandbox.files.write("round", String(round));
    assert.equal(await sandbox.pause(), true);
    assert.equal(await sandbox.isRunning(), false);
    const again = await Sandbox.connect(sandbox.sandboxId, options);
    assert.equal(await again.files.read("round"), String(round));
    assert.ok((await again.commands.list()).some(({ pid }) => pid === process.pid));
  }
  assert.equal(await sandbox.kill(), true);
});
