#!/usr/bin/env node
/** cocoon-colocation: one replica. Wiring only. */
import { randomBytes } from "node:crypto";
import {
  aborted,
  createRegistry,
  readListenAddress,
  runMain,
  startHealthServer,
  startHttpServer,
  type MainContext,
  type Registry,
} from "@cocoon/core";
import { openKubeClient } from "@cocoon/kube";
import { colocationProgram, unusedSettings, type ColocationConfig } from "./config.ts";
import { readGates } from "./gates.ts";
import { startColocation, type ColocationSettings } from "./server/start.ts";

/** Before anything runs: the program below is still running when these lines would have their turn. */
const metricPaths: ReadonlySet<string> = new Set([
  "/metrics",
  "/all-metrics",
  "/internal-metrics",
  "/external-metrics",
]);

await runMain({ program: colocationProgram, logLevel: (config) => config.logLevel, run });

async function run({
  config,
  log,
  signal,
}: MainContext<(typeof colocationProgram)["options"]>): Promise<void> {
  await using stack = new AsyncDisposableStack();
  const metrics = createRegistry("cocoon-colocation");
  const health = stack.use(
    await startHealthServer({
      ...readListenAddress(config.healthProbeAddr, "--health-probe-addr"),
      registry: metrics,
    }),
  );
  stack.use(await startMetricsServer(config.metricsAddr, metrics));
  const { gates, unused } = readGates(config.featureGates);
  if (unused.length > 0) log.info({ gates: unused }, "feature gates accepted and not used here");
  const ignored = unusedSettings(config);
  if (ignored.length > 0) log.info({ flags: ignored }, "flags accepted and not used here");
  const { kubeconfig, context } = config;
  const client = stack.use(await openKubeClient({ signal, kubeconfig, context }));
  const running = stack.use(
    await startColocation({ client, settings: readSettings(config, gates), log, metrics, signal }),
  );
  health.addCheck("webhook-ready", () => running.readiness());
  health.addCheck("listener", () => running.server.checkListener());
  health.markReady();
  log.info({ port: running.server.port }, "colocation webhooks are up");
  await aborted(signal);
  health.markStopping();
}

/** The paths that Koordinator's manager has; here all of them show the same. */
function startMetricsServer(address: string, registry: Registry): Promise<AsyncDisposable> {
  return startHttpServer({
    name: "metrics server",
    ...readListenAddress(address, "--metrics-addr"),
    drainMs: 1_000,
    handler: (request, response) => {
      if (!metricPaths.has((request.url ?? "").split("?")[0] ?? "")) {
        response.writeHead(404).end();
        return;
      }
      registry.metrics().then(
        (text) => response.writeHead(200, { "content-type": registry.contentType }).end(text),
        () => response.writeHead(500).end(),
      );
    },
  });
}

function readSettings(config: ColocationConfig, gates: ColocationSettings["gates"]): ColocationSettings {
  const { webhookHost, webhookUrlPort, webhookPort, rateLimit, rateLimitBurst } = config;
  return {
    host: config.webhookBind,
    port: webhookPort,
    namespace: config.podNamespace,
    serviceName: config.serviceName,
    url: webhookHost === "" ? undefined : { host: webhookHost, port: webhookUrlPort || webhookPort },
    configurationNames: { mutating: config.mutatingWebhookName, validating: config.validatingWebhookName },
    certificates: {
      secretName: config.secretName,
      directory: config.webhookCertWriter === "fs" ? config.webhookCertDir : undefined,
      replica: config.podName || `replica-${randomBytes(4).toString("hex")}`,
    },
    rateLimit: { perSecond: rateLimit, burst: rateLimitBurst || rateLimit * 2 },
    auditLevel: config.auditLevel,
    gates,
    warnRules: config.warnRules,
    configNamespace: config.configNamespace ?? config.podNamespace,
    sloConfigName: config.sloConfigName,
    sloNamesNeeded: config.nodeStrategyNameNeedCheck,
    maxAmplificationRatio: config.maxAmplificationRatio,
    enhanced: {
      namespace: config.podEnhancedValidatorConfigNamespace ?? config.podNamespace,
      name: config.podEnhancedValidatorConfigName,
    },
    binding: {
      users: config.bindingAdmissionUserName,
      dryRun: config.bindingAdmissionDryRun,
      namespaces: config.bindingAdmissionNamespaces,
      excludedNamespaces: config.bindingAdmissionExcludeNamespaces,
      bypassLabels: config.bindingAdmissionBypassLabels,
      bypassAnnotations: config.bindingAdmissionBypassAnnotations,
    },
  };
}
