/** The Python SDK in two versions. They come from PyPI into environments of their own, so only in the full tier. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, test } from "node:test";
import {
  ensurePythonPackage,
  fullTierOnly,
  ownControlPlane,
  runCommand,
  tier,
  type OwnControlPlane,
} from "@cocoon/testkit";
import { openGatewayWorld, type GatewayWorld } from "./world.ts";

const versions = ["2.51.0", "2.63.0"];
let cluster: OwnControlPlane | undefined;
let world: GatewayWorld | undefined;

before(async () => {
  if (tier() !== "full") return;
  cluster = await ownControlPlane();
  world = await openGatewayWorld(cluster);
});

after(async () => {
  await world?.[Symbol.asyncDispose]();
  await cluster?.[Symbol.asyncDispose]();
});

for (const version of versions)
  test(
    `PyPI e2b ${version}, sync and async`,
    fullTierOnly("the Python SDK comes from the network"),
    async () => {
      assert.ok(world);
      const python = await ensurePythonPackage("e2b", version);
      const env = { E2B_API_KEY: world.key, E2B_API_URL: world.url, E2B_SANDBOX_URL: world.url };
      const ran = await runCommand(python, [join(import.meta.dirname, "python-sdk.py")], {
        env,
        timeoutMs: 600_000,
      });
      assert.equal(ran.stdout, "ok\n", ran.stderr);
    },
  );
