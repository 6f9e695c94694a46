#!/usr/bin/env node
/** cocoon-webhook: admission of machines' pods and of what makes them. Wiring only. */
import { hostname } from "node:os";
import { systemNamespace } from "@cocoon/contract";
import {
  aborted,
  createRegistry,
  readListenAddress,
  runMain,
  startHealthServer,
  type Logger,
  type MainContext,
} from "@cocoon/core";
import { openKubeClient, type KubeConnection } from "@cocoon/kube";
import {
  exportCertificateMetrics,
  mutatingWebhooks,
  secretStore,
  startBuiltInCertificates,
  startFileCertificates,
  validatingWebhooks,
  type ServingCertificates,
} from "@cocoon/kube/certificates";
import { webhookProgram, type WebhookConfig } from "./config.ts";
import { noSnapshots, type Snapshots } from "./snapshots.ts";
import { startWebhook, type WebhookOptions } from "./start.ts";

await runMain({ program: webhookProgram, logLevel: (config) => config.logLevel, run, givesMemoryBack: true });

async function run({ config, log, signal }: MainContext<(typeof webhookProgram)["options"]>): Promise<void> {
  await using stack = new AsyncDisposableStack();
  const metrics = createRegistry("cocoon-webhook");
  const health = stack.use(
    await startHealthServer({ ...readListenAddress(config.metricsAddr, "METRICS_ADDR"), registry: metrics }),
  );
  const { kubeconfig, context } = config;
  const client = stack.use(
    await openKubeClient({
      signal,
      log,
      userAgent: "cocoon-webhook",
      registry: metrics,
      kubeconfig,
      context,
    }),
  );
  const replica = config.replica ?? `${hostname()}-${process.pid}`;
  const certificates = stack.use(await startCertificates(config, { client, replica, log, signal }));
  exportCertificateMetrics(metrics, certificates);
  const snapshots = await openSnapshots(config, log, stack);
  const webhook = stack.use(
    await startWebhook({
      client,
      certificates,
      snapshots,
      replica,
      ...readSettings(config),
      metrics,
      log,
      signal,
    }),
  );
  health.addCheck("admission", async () => (await webhook.server.readiness()) ?? undefined);
  health.addCheck("listener", () => webhook.server.checkListener());
  health.markReady();
  await Promise.race([aborted(signal), webhook.failed]);
  health.markStopping();
}

/** The client of registries is loaded where one is named: elsewhere it would only take memory. */
async function openSnapshots(
  config: WebhookConfig,
  log: Logger,
  stack: AsyncDisposableStack,
): Promise<Snapshots> {
  const address = config.ociRegistry || config.epochUrl;
  if (address) {
    const { openRegistrySnapshots } = await import("./registry.ts");
    return stack.use(await openRegistrySnapshots(address, config, log));
  }
  log.info("no registry is set: a machine whose node cannot take it waits for that node");
  return noSnapshots;
}

type Settings = Pick<WebhookOptions, "listen" | "rules" | "reaper" | "lameDuckMs">;

function readSettings(config: WebhookConfig): Settings {
  return {
    listen: readListenAddress(config.listenAddr, "LISTEN_ADDR"),
    rules: {
      mode: config.mode,
      creators: config.podCreators,
      pin: config.pin,
      onFailure: config.onFailure,
      keepOff: config.keepOff,
      guardDeletion: config.guardDeletion,
    },
    reaper: {
      intervalMs: config.reaperInterval,
      goneMs: config.reaperGrace,
      unboundMs: config.unboundGrace,
    },
    lameDuckMs: config.lameDuck,
  };
}

interface CertificateContext extends Pick<MainContext<(typeof webhookProgram)["options"]>, "log" | "signal"> {
  readonly client: KubeConnection;
  readonly replica: string;
}

function startCertificates(
  config: WebhookConfig,
  { client, replica, log, signal }: CertificateContext,
): Promise<ServingCertificates> {
  if (config.certificates === "files")
    return startFileCertificates({ certificateFile: config.tlsCert, keyFile: config.tlsKey, log });
  const hosts = config.certificateHosts;
  return startBuiltInCertificates(
    {
      store: secretStore({ client, key: { namespace: systemNamespace, name: config.certificateSecret } }),
      targets: [
        mutatingWebhooks({ client, name: config.mutatingConfiguration }),
        validatingWebhooks({ client, name: config.validatingConfiguration }),
      ],
      names: { commonName: hosts[0] ?? "cocoon-webhook", hosts },
      replica,
      log,
      authorityName: "cocoon-webhook authority",
      connection: client,
    },
    { signal },
  );
}
