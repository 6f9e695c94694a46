/** The Python SDK in two versions. They come from PyPI into environments of their own, so only in the full tier. */
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fullTierOnly, ownControlPlane, runCommand, tier, type OwnControlPlane } from "@cocoon/testkit";
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

async function ensurePython(version: string): Promise<string> {
  const cache = process.env["XDG_CACHE_HOME"] ?? join(homedir(), ".cache");
  const directory = join(cache, "cocoon", `e2b-python-${version}`);
  const python = join(directory, "bin", "python");
  if (existsSync(join(directory, "complete"))) return python;
  const make = `python3 -m venv '${directory}' && '${python}' -m pip install -q 'e2b==${version}' && touch '${directory}/complete'`;
  const made = await runCommand("sh", ["-c", make], { timeoutMs: 300_000 });
  assert.equal(made.code, 0, made.stderr);
  return python;
}

for (const version of versions)
  test(
    `PyPI e2b ${version}, sync and async`,
    fullTierOnly("the Python SDK comes from the network"),
    async () => {
      assert.ok(world);
      const python = await ensurePython(version);
      const env = { E2B_API_KEY: world.key, E2B_API_URL: world.url, E2B_SANDBOX_URL: world.url };
      const ran = await runCommand(python, [join(import.meta.dirname, "python-sdk.py")], {
        env,
        timeoutMs: 600_000,
      });
      assert.equal(ran.stdout, "ok\n", ran.stderr);
    },
  );
