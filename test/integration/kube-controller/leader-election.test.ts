import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { signalProcess, startProgram, type RunningProgram } from "@cocoon/core";
import { configMaps, leases, openKubeClient, type KubeClient } from "@cocoon/kube";
import {
  count,
  eventually,
  sharedControlPlane,
  temporaryDirectory,
  type TestCluster,
  type TestNamespace,
} from "@cocoon/testkit";
import { counterName, readHistory, replicaScript, times, type Reign } from "./replica.ts";

const waitOptions = { timeoutMs: 60_000, intervalMs: 50 };

interface Stage {
  readonly cluster: TestCluster;
  readonly client: KubeClient;
  readonly namespace: TestNamespace;
  readonly directory: string;
  readonly options: { readonly signal: AbortSignal };
}

async function startReplica(stage: Stage, identity: string): Promise<RunningProgram> {
  return startProgram({
    name: identity,
    command: process.execPath,
    args: [replicaScript, stage.namespace.name, identity],
    env: { KUBECONFIG: stage.cluster.kubeconfigPath },
    logFile: join(stage.directory, `${identity}.log`),
  });
}

/** A candidate waits for the lease from when it first saw it: only one that stands by can follow within the lease. */
async function standsBy({ directory }: Stage, identity: string): Promise<void> {
  await eventually(async () => {
    const log = await readFile(join(directory, `${identity}.log`), "utf8");
    assert.match(log, /lease is held by another/);
  }, waitOptions);
}

async function history({ client, namespace, options }: Stage): Promise<readonly Reign[]> {
  return readHistory(await client.get(configMaps, { namespace: namespace.name, name: counterName }, options));
}

/** Waits until another candidate than the given one has acted, more than once. */
async function nextLeader(stage: Stage, previous: Reign | undefined): Promise<Reign> {
  return eventually(async () => {
    const last = (await history(stage)).at(-1);
    assert.ok(last && last.epoch !== previous?.epoch && last.acts > 2, "no new leader acts");
    return last;
  }, waitOptions);
}

async function leaseSpec({ client, namespace, options }: Stage) {
  return (await client.get(leases, { namespace: namespace.name, name: "replicas" }, options)).spec;
}

/** Each epoch belongs to one replica, and none acts again once the next one has. */
function assertNoOverlap(reigns: readonly Reign[]): void {
  const epochs = reigns.map((reign) => reign.epoch);
  assert.deepEqual(
    epochs,
    [...new Set(epochs)].toSorted((a, b) => a - b),
    JSON.stringify(reigns, null, 1),
  );
}

async function onStage(run: (stage: Stage) => Promise<void>, signal: AbortSignal): Promise<void> {
  const cluster = await sharedControlPlane();
  const options = { signal };
  await using client = await openKubeClient({ kubeconfig: cluster.kubeconfigPath, signal });
  await using namespace = await cluster.newNamespace();
  await using directory = await temporaryDirectory();
  await client.create(configMaps, { metadata: { namespace: namespace.name, name: counterName } }, options);
  await run({ cluster, client, namespace, directory: directory.path, options });
}

test("a killed leader is followed within the lease, a leaving one at once, and never two act", async (t) => {
  await onStage(async (stage) => {
    await using programs = new AsyncDisposableStack();
    const replicas = new Map<string, RunningProgram>();
    const start = async (identity: string): Promise<void> => {
      replicas.set(identity, programs.use(await startReplica(stage, identity)));
    };
    await start("start-a");
    let last = await nextLeader(stage, undefined);
    await start("start-b");
    await standsBy(stage, "start-b");
    for (let round = 0; round < count({ small: 1, full: 10 }); round += 1) {
      // Killed: nothing is released, the others have to wait for the lease to expire.
      const killed = replicas.get(last.identity);
      assert.ok(killed);
      signalProcess(killed.identity, "SIGKILL");
      const killedAt = Date.now();
      await killed.exited;
      const successor = await nextLeader(stage, last);
      const acquired = Date.parse((await leaseSpec(stage))?.acquireTime ?? "");
      const tookMs = acquired - killedAt;
      // While it led, its last renewal was at most the renew deadline old.
      assert.ok(tookMs > times.leaseDurationMs - times.renewDeadlineMs, `took over after only ${tookMs} ms`);
      last = successor;
      await start(`round-${round}-a`);
      await standsBy(stage, `round-${round}-a`);

      // Asked to leave: it finishes, releases, and the next one need not wait.
      const leaving = replicas.get(last.identity);
      assert.ok(leaving);
      const askedAt = Date.now();
      signalProcess(leaving.identity, "SIGTERM");
      assert.deepEqual(await leaving.exited, { code: 0, signal: null });
      last = await nextLeader(stage, last);
      const handedOver = Date.parse((await leaseSpec(stage))?.acquireTime ?? "") - askedAt;
      assert.ok(handedOver < times.leaseDurationMs - 1_000, `took ${handedOver} ms after a release`);
      await start(`round-${round}-b`);
      await standsBy(stage, `round-${round}-b`);
    }
    assertNoOverlap(await history(stage));
  }, t.signal);
});

test("a leader that was frozen past its lease does not act when it wakes", async (t) => {
  await onStage(async (stage) => {
    await using programs = new AsyncDisposableStack();
    const replicas = new Map<string, RunningProgram>();
    let last: Reign | undefined;
    for (const identity of ["frozen-a", "frozen-b"])
      replicas.set(identity, programs.use(await startReplica(stage, identity)));
    for (let round = 0; round < count({ small: 1, full: 10 }); round += 1) {
      last ??= await nextLeader(stage, undefined);
      const frozen = replicas.get(last.identity);
      assert.ok(frozen);
      signalProcess(frozen.identity, "SIGSTOP");
      last = await nextLeader(stage, last);
      signalProcess(frozen.identity, "SIGCONT");
      assert.deepEqual(await frozen.exited, { code: 1, signal: null }, "it ends: its leadership was lost");
      const before = (await history(stage)).at(-1)?.acts ?? 0;
      await eventually(async () => {
        const now = (await history(stage)).at(-1);
        assert.ok(now && now.acts > before + 10);
      }, waitOptions);
      const identity = `frozen-again-${round}`;
      replicas.set(identity, programs.use(await startReplica(stage, identity)));
    }
    assertNoOverlap(await history(stage));
  }, t.signal);
});
