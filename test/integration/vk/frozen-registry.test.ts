/** A registry process that is frozen (SIGSTOP) delays a wake by its freeze, and not by much more. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { sleep } from "@cocoon/core";
import { count, eventually, sharedControlPlane, temporaryDirectory } from "@cocoon/testkit";
import { startChildRegistry } from "../registry/child.ts";
import { machinePod, mark, openWorld, runMachine, readMark, type World } from "./test-vk.ts";

const cluster = await sharedControlPlane();
const hibernate = "vm.cocoonstack.io/hibernate";
const frozenMs = count({ small: 18_000, full: 40_000 });
/** Longer than any timeout of one request, or the freeze would show nothing about retries. */
const answerTimeoutMs = 15_000;
const recoverMs = 30_000;

async function reach(world: World, state: string, timeoutMs: number): Promise<void> {
  await eventually(
    async () => {
      const { annotations = {} } = (await world.pod("demo"))?.metadata ?? {};
      assert.equal(annotations["vm.cocoonstack.io/lifecycle-state"], state);
    },
    { timeoutMs },
  );
}

test("a registry that was frozen delays neither a wake nor a hibernation for long after it continues", async () => {
  assert.ok(frozenMs > answerTimeoutMs);
  await using stack = new AsyncDisposableStack();
  const directory = stack.use(await temporaryDirectory());
  const child = stack.use(
    await startChildRegistry({
      root: join(directory.path, "registry"),
      logFile: join(directory.path, "epoch.log"),
    }),
  );
  const { url, client } = child;
  const world = stack.use(await openWorld(cluster, async () => ({ url, token: client.token ?? "" })));
  const { signal } = new AbortController();
  const { pid } = child.program.identity;
  const freezeDuring = async (request: () => Promise<void>): Promise<void> => {
    process.kill(pid, "SIGSTOP");
    try {
      await request();
      await sleep(frozenMs, { signal });
    } finally {
      process.kill(pid, "SIGCONT");
    }
  };
  const node = await world.newNode();
  const vmName = `vk-${world.namespace.name}-demo`;
  await world.apply(machinePod("demo", node.name, runMachine(vmName)));
  await reach(world, "ready", 60_000);
  const marked = mark(node, vmName);

  await freezeDuring(() => world.annotate("demo", `${hibernate}=true`));
  await reach(world, "hibernated", recoverMs);
  node.host.snapshots.clear();
  await freezeDuring(() => world.annotate("demo", `${hibernate}-`));
  await reach(world, "ready", recoverMs);
  assert.equal(readMark(node, vmName), marked);
});
