/** The operator out of its settings. Wiring only. */
import { legacyApiVersion, systemNamespace } from "@cocoon/contract";
import {
  aborted,
  createRegistry,
  isFault,
  readListenAddress,
  startHealthServer,
  type Logger,
  type MainContext,
  type Registry as MetricsRegistry,
} from "@cocoon/core";
import { openKubeClient, type KubeClient, type KubeConnection } from "@cocoon/kube";
import { guardedClient, lead } from "@cocoon/kube/controller";
import { openConfiguredRegistry, type Registry } from "@cocoon/oci";
import type { operatorProgram, OperatorConfig } from "./config.ts";
import { startOperator } from "./start.ts";

const leaseName = "cocoon-operator.cocoonset.cocoonstack.io";

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
  const connection = stack.use(
    await openKubeClient({
      signal,
      registry: metrics,
      ...(kubeconfig ? { kubeconfig } : {}),
      ...(context ? { context } : {}),
    }),
  );
  const registry = stack.use(await openRegistryOf(config, log));
  const parts = { connection, registry, metrics, log, config };
  // A replica that waits for the lease is ready: it is what takes over.
  health.markReady();
  if (config.leaderElect) {
    const namespace = config.leaderElectionNamespace ?? connection.target.namespace ?? systemNamespace;
    const lease = { namespace, name: leaseName };
    await lead({ client: connection, lease, signal, log, registry: metrics }, (leadership) =>
      operate(parts, guardedClient(connection, leadership), AbortSignal.any([signal, leadership.signal])),
    );
  } else await operate(parts, connection, signal);
  health.markStopping();

  async function operate(running: Parts, client: KubeClient, end: AbortSignal): Promise<void> {
    await using operator = startOperator({
      connection: running.connection,
      client,
      registry: running.registry,
      metrics: running.metrics,
      log,
      signal: end,
      namespace: config.watchNamespace,
      concurrency: { sets: config.cocoonsetConcurrency, hibernations: config.hibernationConcurrency },
      resyncMs: config.resyncPeriod,
      legacyApi: await servesLegacyApi(running),
    });
    health.addCheck("caches", () => (operator.isSynced() ? undefined : "caches are not filled yet"));
    await operator.ready;
    log.info("reconciling");
    await aborted(end);
  }
}

interface Parts {
  readonly connection: KubeConnection;
  readonly registry: Registry;
  readonly metrics: MetricsRegistry;
  readonly log: Logger;
  readonly config: OperatorConfig;
}

/** Asked once: whoever installs the definitions later restarts the operator, or says `on`. */
async function servesLegacyApi({ connection, config, log }: Parts): Promise<boolean> {
  if (config.legacyApi !== "auto") return config.legacyApi === "on";
  try {
    const signal = AbortSignal.timeout(30_000);
    await connection.raw({ method: "GET", path: `/apis/${legacyApiVersion}`, signal });
    log.info("the older API is installed and served");
    return true;
  } catch (error) {
    if (isFault(error, "notFound")) return false;
    throw error;
  }
}

async function openRegistryOf(config: OperatorConfig, log: Logger): Promise<Registry> {
  const address = config.ociRegistry ?? config.epochUrl;
  log.info({ registry: address }, "snapshots are in this registry");
  return openConfiguredRegistry({
    address,
    token: config.epochToken,
    dockerConfig: config.dockerConfig,
    google: { file: config.googleApplicationCredentials, metadataHost: config.gceMetadataHost },
    caFile: config.epochCaCert,
    // Reconciles come back by themselves: a call is not repeated behind their back for long.
    retry: { attempts: 2 },
    answerTimeoutMs: 10_000,
  });
}
