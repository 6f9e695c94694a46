import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { sleep } from "@cocoon/core";
import { configMaps } from "@cocoon/kube";
import { count, sharedControlPlane, testSeed } from "@cocoon/testkit";
import { openClient } from "./access.ts";
import { churn, fill } from "./churn.ts";

const { signal } = new AbortController();
const pauseMs = count({ small: 3_000, full: 30_000 });

for (const idleTimeoutMs of [1_000, 150_000]) {
  test(
    `a process that stood still for ${pauseMs} ms catches up (idle limit ${idleTimeoutMs} ms)`,
    { timeout: 300_000 },
    async () => {
      const cluster = await sharedControlPlane();
      await using namespace = await cluster.newNamespace();
      await using client = await openClient(cluster);
      const names = 100;
      await fill({ client, namespace: namespace.name, names, signal });
      const script = fileURLToPath(import.meta.resolve("./watch-process.ts"));
      const args = [script, cluster.kubeconfigPath, namespace.name, String(idleTimeoutMs)];
      const child = spawn(process.execPath, args, { stdio: ["pipe", "pipe", "inherit"] });
      try {
        const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
        const next = async () => String((await lines.next()).value);
        assert.equal(await next(), "synced");
        const changes = (seed: number) =>
          churn({ client, namespace: namespace.name, names, steps: 400, seed: testSeed() + seed, signal });
        await changes(0);
        child.kill("SIGSTOP");
        await Promise.all([changes(1), sleep(pauseMs, { signal })]);
        child.kill("SIGCONT");
        await changes(2);
        child.stdin.write("check\n");
        const { items } = await client.list(configMaps, { signal, namespace: namespace.name });
        assert.equal(await next(), `agrees ${items.length}`);
        child.stdin.end();
        const [code] = (await once(child, "exit")) as [number | null];
        assert.equal(code, 0);
      } finally {
        child.kill("SIGKILL");
      }
    },
  );
}
