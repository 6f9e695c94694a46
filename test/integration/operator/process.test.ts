/** The executable: settings, health, metrics, and two replicas of which one leads. */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { startProgram, type RunningProgram } from "@cocoon/core";
import {
  eventually,
  fullTierOnly,
  runCommand,
  sharedControlPlane,
  temporaryDirectory,
  freePort,
} from "@cocoon/testkit";
import { installCrds } from "../contract/install-crds.ts";
import { openWorld, buildSpec, type TestWorld } from "./world.ts";

const cluster = await sharedControlPlane();
await installCrds(cluster);
const main = join(import.meta.dirname, "../../../packages/operator/src/main.ts");

interface Replica {
  readonly program: RunningProgram;
  readonly logFile: string;
  metrics(): Promise<string>;
  status(path: string): Promise<number>;
}

async function startReplica(world: TestWorld, directory: string, token: string): Promise<Replica> {
  const [metricsPort, probePort] = [await freePort(), await freePort()];
  const logFile = join(directory, `operator-${metricsPort}.log`);
  const program = await startProgram({
    name: "cocoon-operator",
    command: process.execPath,
    args: [main],
    logFile,
    env: {
      KUBECONFIG: cluster.kubeconfigPath,
      OCI_REGISTRY: world.server.url,
      EPOCH_TOKEN: token,
      METRICS_ADDR: `127.0.0.1:${metricsPort}`,
      PROBE_ADDR: `127.0.0.1:${probePort}`,
      POD_NAMESPACE: world.namespace,
      WATCH_NAMESPACE: world.namespace,
      LEGACY_API: "off",
    },
  });
  return {
    program,
    logFile,
    metrics: async () => (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text(),
    status: async (path) => (await fetch(`http://127.0.0.1:${probePort}${path}`)).status,
  };
}

const leads = /^leader_election_master_status\{[^}]*\} 1$/m;

test(
  "of two replicas one leads; when it ends the other goes on",
  fullTierOnly("waits for leases"),
  async () => {
    await using world = await openWorld(cluster, { withoutOperator: true });
    await using directory = await temporaryDirectory();
    const token = await world.server.createToken({ name: "operator" });
    const replicas = [
      await startReplica(world, directory.path, token),
      await startReplica(world, directory.path, token),
    ] as const;
    await using _first = replicas[0].program;
    await using _second = replicas[1].program;
    const leader = await eventually(
      async () => {
        const metrics = await Promise.all(replicas.map((replica) => replica.metrics()));
        const leading = replicas.filter((_, index) => leads.test(metrics[index] ?? ""));
        assert.equal(leading.length, 1, "exactly one leads");
        return leading[0];
      },
      { timeoutMs: 60_000 },
    );
    assert.ok(leader);
    await eventually(async () => {
      for (const replica of replicas)
        for (const path of ["/healthz", "/readyz"]) assert.equal(await replica.status(path), 200, path);
    });
    await world.apply("a", buildSpec(world));
    await world.reaches("a", (status) => assert.equal(status.phase, "Running"));
    const metrics = await leader.metrics();
    for (const name of [
      "cocoon_operator_subagent_rebuild_total",
      "cocoon_operator_subagent_dead_letter_total",
      "cocoon_operator_hibernate_phase_duration_seconds",
      "cocoon_operator_wake_phase_duration_seconds",
      "cocoon_operator_lifecycle_state_failed_observed_total",
      "cocoon_operator_slot_release_pods_deleted_total",
      "cocoon_operator_slot_release_wake_total",
      "cocoon_operator_slot_release_wake_unschedulable_total",
      'controller_runtime_reconcile_total{controller="cocoonset"',
      'workqueue_depth{name="cocoonhibernation"',
    ])
      assert.ok(metrics.includes(name), name);
    await leader.program.stop();
    await world.patch("a", { spec: { agent: { replicas: 1 } } });
    await world.reaches("a", (status) => assert.equal(status.readyAgents, 2));
    assert.deepEqual(world.kubelet.violations, []);
  },
);

test("a replica that loses its lease waits for it again and goes on, in the same process", async () => {
  await using world = await openWorld(cluster, { withoutOperator: true });
  await using directory = await temporaryDirectory();
  const token = await world.server.createToken({ name: "operator" });
  const replica = await startReplica(world, directory.path, token);
  await using _program = replica.program;
  // The lease comes first, then the caches are filled: until then the replica rightly says that it is not ready.
  const reconciles = async (terms: number) => {
    const log = await readFile(replica.logFile, "utf8");
    assert.equal(log.match(/"reconciling"/g)?.length, terms, log);
    return log;
  };
  await eventually(() => reconciles(1), { timeoutMs: 60_000 });
  const lease = "cocoon-operator.cocoonset.cocoonstack.io";
  // Another holder that never renews: its lease is over a second after it was seen.
  const renewTime = new Date().toISOString().replace("Z", "000Z");
  const spec = { holderIdentity: "another", leaseDurationSeconds: 1, renewTime };
  const args = ["-n", world.namespace, "--type=merge", "-p", JSON.stringify({ spec })];
  const taken = await cluster.kubectl(["patch", "lease", lease, ...args]);
  assert.equal(taken.code, 0, taken.stderr);
  const log = await eventually(() => reconciles(2), { timeoutMs: 60_000 });
  assert.match(log, /waiting for the lease again/);
  assert.match(await replica.metrics(), leads);
  assert.equal(await replica.status("/readyz"), 200);
  await world.apply("a", buildSpec(world));
  await world.reaches("a", (status) => assert.equal(status.phase, "Running"));
  assert.match(await replica.metrics(), /^cocoon_operator_cocoonsets\{[^}]*phase="Running"[^}]*\} 1$/m);
  assert.deepEqual(world.kubelet.violations, []);
});

test("settings are those that people know", async () => {
  const run = (args: readonly string[], env: Record<string, string> = {}) =>
    runCommand(process.execPath, [main, ...args], { env });
  const refused = await run(["--cocoonset-concurrency", "0"]);
  assert.equal(refused.code, 2, refused.stderr);
  assert.match(refused.stderr, /cocoonset-concurrency/);
  const printed = await run(["--print-config", "--metrics-bind-address", ":9000"], {
    COCOONSET_CONCURRENCY: "many",
    METRICS_ADDR: ":9001",
    EPOCH_TOKEN: "s3cret",
  });
  const config = JSON.parse(printed.stdout) as Record<string, unknown>;
  assert.equal(config["cocoonsetConcurrency"], 4, "what is no number means the default");
  assert.equal(config["metricsBindAddress"], ":9000", "flags win");
  assert.equal(config["healthProbeBindAddress"], ":8081");
  assert.equal(config["leaderElect"], true);
  assert.ok(!printed.stdout.includes("s3cret"), "secrets are not shown");
});
