/** The operator out of its settings. Wiring only. */
import { legacyApiVersion, systemNamespace } from "@cocoon/contract";
import {
  aborted,
  createRegistry,
  getErrorMessage,
  ignoreFault,
  isFault,
  readListenAddress,
  sleep,
  startHealthServer,
  type HealthServer,
  type Logger,
  type MainContext,
} from "@cocoon/core";
import { openKubeClient, type KubeClient } from "@cocoon/kube";
import { guardedClient, lead } from "@cocoon/kube/controller";
import { openConfiguredRegistry, readCredentialSettings, type Registry } from "@cocoon/oci";
import type { operatorProgram, OperatorConfig } from "./config.ts";
import { startOperator, type OperatorOptions } from "./start.ts";
import { assertNoUpstream } from "./sandbox/upstream.ts";

const leaseName = "cocoon-operator.cocoonset.cocoonstack.io";
/** Before the lease is sought again. */
const retryMs = 1_000;

interface Parts extends Pick<OperatorOptions, "connection" | "registry" | "metrics" | "log"> {
  readonly health: HealthServer;
  readonly config: OperatorConfig;
}

/** Runs until the signal aborts. */
export async function runOperator({
  config,
  log,
  signal,
}: MainContext<(typeof operatorProgram)["options"]>): Promise<void> {
  await using stack = new AsyncDisposableStack();
  const metrics = createRegistry("cocoon-operator");
  stack.use(
    await startHealthServer({
      ...readListenAddress(config.metricsBindAddress, "METRICS_ADDR"),
      registry: metrics,
    }),
  );
  const health = stack.use(
    await startHealthServer(readListenAddress(config.healthProbeBindAddress, "PROBE_ADDR")),
  );
  const { kubeconfig, context } = config;
  const connection = stack.use(await openKubeClient({ signal, registry: metrics, kubeconfig, context }));
  const registry = stack.use(await openSnapshotRegistry(config, log));
  const parts = { connection, registry, metrics, health, log, config };
  // A replica that waits for the lease is ready: it is what takes over.
  health.markReady();
  if (!config.leaderElect) await operate(parts, connection, signal);
  while (config.leaderElect && !signal.aborted) await leadOnce(parts, signal);
  health.markStopping();
}

/** Waits for the lease and operates until it is lost or the signal aborts. Throws where only a new process is safe. */
async function leadOnce(parts: Parts, signal: AbortSignal): Promise<void> {
  const { connection, config, log, metrics } = parts;
  const namespace = config.leaderElectionNamespace ?? connection.target.namespace ?? systemNamespace;
  const election = { client: connection, lease: { namespace, name: leaseName }, signal, log };
  let lost = false;
  try {
    await lead({ ...election, registry: metrics }, async (leadership) => {
      leadership.signal.addEventListener("abort", () => (lost = true), { once: true });
      const end = AbortSignal.any([signal, leadership.signal]);
      await operate(parts, guardedClient(connection, leadership), end);
    });
  } catch (error) {
    // Lost, and `timeout`: work did not end before another replica may have taken over. Only a new process is safe.
    if (lost ? isFault(error, "timeout") : !isFault(error, "unavailable")) throw error;
    log.warn({ error: getErrorMessage(error) }, "waiting for the lease again");
    await sleep(retryMs, { signal });
  }
}

async function operate(parts: Parts, client: KubeClient, end: AbortSignal): Promise<void> {
  const { connection, registry, metrics, health, log, config } = parts;
  if (config.agentSandbox) await assertNoUpstream(connection, new Date(), { signal: end });
  await using operator = startOperator({
    connection,
    client,
    registry,
    metrics,
    log,
    signal: end,
    namespace: config.watchNamespace,
    concurrency: { sets: config.cocoonsetConcurrency, hibernations: config.hibernationConcurrency },
    resyncMs: config.resyncPeriod,
    legacyApi: await servesLegacyApi(parts, end),
    agentSandbox: config.agentSandbox,
  });
  health.addCheck("caches", () =>
    end.aborted || operator.isSynced() ? undefined : "caches are not filled yet",
  );
  await Promise.race([operator.ready, aborted(end)]);
  if (!end.aborted) log.info("reconciling");
  await aborted(end);
}

/** Looked up when the operator starts to act: definitions that are installed later need a restart, or `on`. */
async function servesLegacyApi({ connection, config, log }: Parts, end: AbortSignal): Promise<boolean> {
  if (config.legacyApi !== "auto") return config.legacyApi === "on";
  const signal = AbortSignal.any([end, AbortSignal.timeout(30_000)]);
  const path = `/apis/${legacyApiVersion}`;
  const found = await ignoreFault("notFound", connection.raw({ method: "GET", path, signal }));
  if (found !== undefined) log.info("the older API is installed and served");
  return found !== undefined;
}

async function openSnapshotRegistry(config: OperatorConfig, log: Logger): Promise<Registry> {
  const address = config.ociRegistry ?? config.epochUrl;
  log.info({ registry: address }, "snapshots are in this registry");
  return openConfiguredRegistry({
    address,
    ...readCredentialSettings(config),
    // A reconcile is repeated with back-off: its calls need few attempts of their own.
    retry: { attempts: 2 },
    answerTimeoutMs: 10_000,
  });
}
