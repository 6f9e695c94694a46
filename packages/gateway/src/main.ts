#!/usr/bin/env node
/** cocoon-gateway. Wiring only. */
import {
  aborted,
  createRegistry,
  Fault,
  readListenAddress,
  runMain,
  startHealthServer,
  type MainContext,
} from "@cocoon/core";
import { openKubeClient } from "@cocoon/kube";
import { openConfiguredRegistry, readCredentialSettings, type Registry } from "@cocoon/oci";
import { gatewayProgram, type GatewayConfig } from "./config.ts";
import { startSandboxRouter } from "./sandbox-router/router.ts";
import { startGateway, type GatewayOptions } from "./start.ts";

await runMain({ program: gatewayProgram, logLevel: (config) => config.logLevel, run, givesMemoryBack: true });

async function run({ config, log, signal }: MainContext<(typeof gatewayProgram)["options"]>): Promise<void> {
  await using stack = new AsyncDisposableStack();
  const registry = createRegistry("cocoon-gateway");
  const metricsAddress = readListenAddress(config.metricsAddr, "GATEWAY_METRICS_ADDR");
  const health = stack.use(await startHealthServer({ ...metricsAddress, registry }));
  const { kubeconfig, context } = config;
  const client = stack.use(
    await openKubeClient({ signal, log, userAgent: "cocoon-gateway", registry, kubeconfig, context }),
  );
  const filesRegistry = await openFilesRegistry(config);
  if (filesRegistry) stack.use(filesRegistry);
  const settings = { ...readSettings(config), registry: filesRegistry };
  const gateway = stack.use(await startGateway({ client, ...settings, log, signal }));
  health.addCheck("listener", () => gateway.server.checkListener({ path: "/health", timeoutMs: 2_000 }));
  if (config.sandboxRouterAddr) {
    const { seedSecret, maxUploadBytes, sandboxRouterAuthorization: authorization } = config;
    const address = readListenAddress(config.sandboxRouterAddr, "GATEWAY_SANDBOX_ROUTER_ADDR");
    const router = { client, listen: address, authorization, seedSecret, maxUploadBytes, log, signal };
    stack.use(await startSandboxRouter(router));
  }
  health.markReady();
  await Promise.race([aborted(signal), gateway.failed]);
  health.markStopping();
}

async function openFilesRegistry(config: GatewayConfig): Promise<Registry | undefined> {
  const address = config.ociRegistry ?? config.epochUrl;
  return address ? openConfiguredRegistry({ address, ...readCredentialSettings(config) }) : undefined;
}

function readSettings(config: GatewayConfig): Omit<GatewayOptions, "client" | "signal"> {
  const { tlsCert, tlsKey, maxSandboxes, maxLifeSeconds, requestsPerSecond, maxUploadBytes, maxHeld } =
    config;
  const { warmPool } = config;
  if ((tlsCert === undefined) !== (tlsKey === undefined))
    throw new Fault("invalid", "GATEWAY_TLS_CERT and GATEWAY_TLS_KEY: set both or none");
  return {
    listen: readListenAddress(config.listenAddr, "GATEWAY_LISTEN_ADDR"),
    tls: tlsCert && tlsKey ? { certFile: tlsCert, keyFile: tlsKey } : undefined,
    domain: config.domain,
    templates: config.templates,
    seedSecret: config.seedSecret,
    limits: {
      warmPool,
      maxSandboxes,
      maxLifeSeconds,
      requestsPerSecond,
      maxUploadBytes,
      maxHeld,
      waitMs: config.wait,
    },
  };
}
