/** Parts of a running platform are killed or do not answer for a while; the platform recovers by itself. */
import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { markedProcesses } from "@cocoon/controlplane";
import { eventually, runCommand, tier } from "@cocoon/testkit";
import { newHome, npm, root } from "./home.ts";
import { openPlatform, type Platform } from "./platform.ts";

/** docs/reliability.md promises a minute, where the machine does nothing else. */
const worstMs = tier() === "full" ? 60_000 : 240_000;

interface PartStatus {
  readonly name: string;
  readonly state: string;
  readonly pid: number | null;
  readonly restarts: number;
}

test("parts that end are restarted, and an API server that does not answer ends none", async (t) => {
  await using state = await newHome();
  const home = state.path;
  const up = await npm(home, "up", "--", "--no-demo");
  assert.equal(up.code, 0, up.stderr + up.stdout);
  const status = async () =>
    JSON.parse((await npm(home, "status", "--", "-o", "json")).stdout) as PartStatus[];
  const findPid = (part: string) =>
    markedProcesses(home).find(({ name }) => name === part)?.identity.pid ??
    assert.fail(`${part} is not there`);
  const platform = await openPlatform(home);
  const parts = (await status()).map(({ name }) => name);
  assert.ok(parts.includes("operator") && parts.includes("kube-apiserver") && parts.includes("supervisor"));

  await t.test("a killed part is ready again by itself", async () => {
    const few = ["operator", "kube-apiserver", "vk-node-1"];
    const victims = parts.filter((name) => (tier() === "full" ? name !== "supervisor" : few.includes(name)));
    for (const victim of victims) {
      const before = findPid(victim);
      const began = performance.now();
      process.kill(before, "SIGKILL");
      await eventually(
        async () => {
          const now = await status();
          const found = now.find(({ name }) => name === victim);
          assert.deepEqual([found?.state, found?.pid === before], ["ready", false], victim);
          assert.deepEqual(
            now.filter((each) => each.state !== "ready").map(({ name }) => name),
            [],
          );
        },
        { timeoutMs: worstMs, intervalMs: 100 },
      );
      t.diagnostic(`${victim}: ${Math.round(performance.now() - began)} ms`);
    }
    const restarts = new Map((await status()).map((each) => [each.name, each.restarts]));
    for (const victim of victims) assert.ok((restarts.get(victim) ?? 0) >= 1, `${victim} is counted`);
  });

  await t.test("all parts at once, the supervisor too: the next command recovers them", async () => {
    for (const { identity } of markedProcesses(home)) process.kill(identity.pid, "SIGKILL");
    await eventually(
      async () => {
        const states = (await status()).map(({ name, state: each }) => `${name} ${each}`);
        assert.deepEqual(
          states,
          parts.map((name) => `${name} ready`),
        );
      },
      { timeoutMs: worstMs, intervalMs: 500 },
    );
  });

  await t.test("an API server that does not answer for 12 s ends no part", async () => {
    const before = markedProcesses(home).map(({ name, identity }) => `${name} ${identity.pid}`);
    const apiserver = findPid("kube-apiserver");
    process.kill(apiserver, "SIGSTOP");
    await sleep(12_000);
    process.kill(apiserver, "SIGCONT");
    await applySet(platform, "after-the-break");
    const after = markedProcesses(home).map(({ name, identity }) => `${name} ${identity.pid}`);
    assert.deepEqual(after.toSorted(), before.toSorted());
  });

  await t.test("a command that waits names the part that does not answer", async () => {
    const operator = findPid("operator");
    process.kill(operator, "SIGSTOP");
    try {
      const args = ["create", "waits", "--image", "cocoon-demo", "--mode", "run", "--timeout", "12s"];
      const waited = await npm(home, "cocoonctl", "--", ...args);
      assert.equal(waited.code, 4, waited.stderr);
      assert.match(waited.stderr, /operator does not answer/);
      assert.match(waited.stderr, /The request was submitted and will continue/);
    } finally {
      process.kill(operator, "SIGCONT");
    }
  });

  await t.test("another PATH restarts nothing", async () => {
    const before = markedProcesses(home).map(({ identity }) => identity.pid);
    const again = await runCommand("npm", ["run", "--silent", "up", "--", "--no-demo"], {
      cwd: root,
      env: { COCOON_HOME: home, PATH: `/nonexistent:${process.env["PATH"]}` },
      timeoutMs: 300_000,
    });
    assert.equal(again.code, 0, again.stderr);
    assert.deepEqual(
      markedProcesses(home).map(({ identity }) => identity.pid),
      before,
    );
  });

  await t.test("down leaves nothing running, and nothing comes back", async () => {
    assert.equal((await npm(home, "down")).code, 0);
    assert.deepEqual(markedProcesses(home), []);
    await sleep(2_000);
    assert.deepEqual(markedProcesses(home), []);
  });
});

/** The operator works: it writes the status of a set. No machine is needed for that. */
async function applySet({ kubectl, home }: Platform, name: string): Promise<void> {
  await kubectl("create", "namespace", name);
  const agent = { image: "cocoon-demo", mode: "run" };
  const set = {
    apiVersion: "cocoonset.cocoonstack.io/v1",
    kind: "CocoonSet",
    metadata: { name },
    spec: { agent },
  };
  const file = join(dirname(home), `${name}.json`);
  await writeFile(file, JSON.stringify(set));
  await kubectl("-n", name, "apply", "-f", file);
  await kubectl(
    "-n",
    name,
    "wait",
    `cocoonset.cocoonset.cocoonstack.io/${name}`,
    "--for=jsonpath={.status.observedGeneration}=1",
    "--timeout=60s",
  );
}
