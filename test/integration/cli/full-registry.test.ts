/** `cocoonctl suspend` while the disk of a real registry is full: it says why, loses nothing, and works once there is room. */
import assert from "node:assert/strict";
import { mkdir, rm, statfs, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { createRegistry, silentLogger } from "@cocoon/core";
import { markedProcesses } from "@cocoon/controlplane";
import { openKubeClient } from "@cocoon/kube";
import { fixedCredential, openRegistry } from "@cocoon/oci";
import { startOperator } from "@cocoon/operator";
import { eventually, runCommand, sharedControlPlane, temporaryDirectory } from "@cocoon/testkit";
import { installCrds } from "../contract/install-crds.ts";
import { startChildRegistry } from "../registry/child.ts";
import { mountSmallDisk } from "../registry/small-disk.ts";
import { mark, openWorld, readMark } from "../vk/test-vk.ts";

const cluster = await sharedControlPlane();
await installCrds(cluster);
const main = join(import.meta.dirname, "../../../packages/cli/bin/cocoonctl.mjs");

/** Takes all room but what no blob of a snapshot fits into. */
async function fill(directory: string): Promise<string> {
  const path = join(directory, "ballast");
  const { bavail, bsize } = await statfs(directory);
  await writeFile(path, Buffer.alloc(bavail * bsize, 1)).catch(() => undefined);
  return path;
}

test("suspend says that the registry's disk is full, and succeeds once there is room", async () => {
  await using stack = new AsyncDisposableStack();
  const disk = stack.use(await mountSmallDisk(32));
  const logs = stack.use(await temporaryDirectory());
  const child = stack.use(
    await startChildRegistry({
      root: join(disk.path, "registry"),
      logFile: join(logs.path, "epoch.log"),
    }),
  );
  const { url, client } = child;
  const token = client.token ?? "";
  const world = stack.use(await openWorld(cluster, async () => ({ url, token })));
  const node = await world.newNode();
  const end = new AbortController();
  const connection = stack.use(
    await openKubeClient({ kubeconfig: cluster.kubeconfigPath, signal: end.signal }),
  );
  const registry = stack.use(
    openRegistry({ address: url, credentials: fixedCredential({ kind: "bearer", token }) }),
  );
  stack.use(
    startOperator({
      connection,
      client: connection,
      registry,
      namespace: world.namespace.name,
      log: silentLogger,
      metrics: createRegistry("test"),
      signal: end.signal,
    }),
  );
  stack.defer(() => end.abort());
  const cocoonctl = (...args: readonly string[]) => {
    const flags = ["--kubeconfig", cluster.kubeconfigPath, "-n", world.namespace.name];
    const env = { COCOON_HOME: join(logs.path, "no-platform"), OCI_REGISTRY: url, EPOCH_TOKEN: token };
    return runCommand(process.execPath, [main, ...args, ...flags], { env, timeoutMs: 180_000 });
  };
  const agent = { image: "demo", mode: "run", resources: { requests: { memory: "64Mi" } } };
  await world.apply({
    apiVersion: "cocoonset.cocoonstack.io/v1",
    kind: "CocoonSet",
    metadata: { name: "atlas" },
    spec: { agent: { ...agent, replicas: 0 }, nodeName: node.name },
  });
  const vmName = `vk-${world.namespace.name}-atlas-0`;
  await eventually(
    async () => {
      const { annotations = {} } = (await world.pod("atlas-0"))?.metadata ?? {};
      assert.equal(annotations["vm.cocoonstack.io/lifecycle-state"], "ready");
    },
    { timeoutMs: 120_000 },
  );
  const marked = mark(node, vmName);
  const ballast = await fill(disk.path);

  const refused = await cocoonctl("suspend", "atlas", "--timeout", "20s");
  assert.equal(refused.code, 4, refused.stdout); // timed out
  assert.match(refused.stderr, /atlas-0: .*registry answered 507: .*no space/i);
  // Paused for a moment at each attempt.
  await eventually(() => assert.equal(node.vm(vmName).vm.state, "running", "the guest continues"));
  assert.equal(readMark(node, vmName), marked);

  await rm(ballast);
  const done = await cocoonctl("suspend", "atlas", "--timeout", "120s");
  assert.equal(done.code, 0, done.stderr);
  assert.ok(await world.tagged(vmName, "hibernate"));
  assert.equal(node.host.vms.size, 0);
});

for (const where of [".", "parts/registry"])
  test(`up says that the disk of ${where} is full, and starts nothing`, async () => {
    await using directory = await temporaryDirectory();
    await using disk = await mountSmallDisk(64);
    const home = where === "." ? join(disk.path, "home") : join(directory.path, "home");
    if (where !== ".") {
      await mkdir(join(home, "parts"), { recursive: true });
      await symlink(disk.path, join(home, where));
    }
    const up = await runCommand(process.execPath, [main, "up", "--no-install"], {
      env: { COCOON_HOME: home },
      timeoutMs: 60_000,
    });
    assert.equal(up.code, 1, up.stdout);
    assert.match(up.stderr, /has \d+ MiB free; the registry and etcd need at least 256 MiB/);
    assert.deepEqual(markedProcesses(home), []);
  });
