/**
 * The short form of `npm run chaos`: a fixed list of steps with faults on a platform with real guests, and named
 * histories that are cheap. The full tier runs an hour of random ones.
 */
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { fullTierOnly, runCommand, testSeed } from "@cocoon/testkit";

const root = join(import.meta.dirname, "..", "..");
const minute = 60_000;

async function chaos(timeoutMs: number, ...args: string[]): Promise<void> {
  const ran = await runCommand("npm", ["run", "--silent", "chaos", "--", ...args], { cwd: root, timeoutMs });
  assert.equal(ran.code, 0, `${ran.stdout.slice(-8_000)}${ran.stderr.slice(-2_000)}`);
}

test("no machine is lost or doubled in a short history with faults", { timeout: 15 * minute }, async () => {
  await chaos(14 * minute, "--replay", join(root, "test", "chaos", "short.json"));
});

const fullOnly = fullTierOnly("it takes an hour");
test(
  "no machine is lost or doubled in an hour of faults",
  { ...fullOnly, timeout: 80 * minute },
  async () => {
    await chaos(78 * minute, "--minutes", "60", "--seed", String(testSeed()));
  },
);

const findings = fullTierOnly("each needs a platform of its own; most of an hour together");
test("no finding comes back", { ...findings, timeout: 60 * minute }, async () => {
  await chaos(58 * minute, "--history", "all");
});
