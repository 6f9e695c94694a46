/** What clients see when a node is lost, with real guests. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { fullTierOnly, ownControlPlane, tier, type OwnControlPlane } from "@cocoon/testkit";
import { Sandbox } from "e2b";
import { openGatewayWorld, type GatewayWorld } from "./world.ts";

const onlyFull = fullTierOnly("it boots a machine and kills its node");
const slow = { requestTimeoutMs: 240_000, timeoutMs: 3_600_000 };
let cluster: OwnControlPlane;
let world: GatewayWorld;
let sandbox: Sandbox;

before(async () => {
  if (tier() !== "full") return;
  cluster = await ownControlPlane({ controllers: true });
  world = await openGatewayWorld(cluster);
  sandbox = await Sandbox.create({ ...world.connection, ...slow });
});

after(async () => {
  await world?.[Symbol.asyncDispose]();
  await cluster?.[Symbol.asyncDispose]();
});

test("a command whose node is lost is reset, and health says 502", onlyFull, async () => {
  const process = await sandbox.commands.run("sleep 600", { background: true, timeoutMs: 0 });
  const ended = process.wait().catch((error: unknown) => error);
  await world.loseNode();
  assert.ok((await ended) instanceof Error);
  const health = await fetch(`${world.url}/health`, {
    headers: { "E2b-Sandbox-Id": sandbox.sandboxId, "E2b-Sandbox-Port": "49983" },
  });
  assert.equal(health.status, 502);
  assert.equal(await sandbox.isRunning(), false);
  await world.returnNode();
});
