/** vk-cocoon out of its settings. Wiring only. */
import { mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import {
  aborted,
  createRegistry,
  readListenAddress,
  startHealthServer,
  type MainContext,
} from "@cocoon/core";
import { openKubeClient } from "@cocoon/kube";
import { fileOrSelfSignedCertificates, tlsPair } from "@cocoon/kube/certificates";
import { RegistrySource } from "@cocoon/vm";
import { readClientAuthority } from "./client-authority.ts";
import type { vkProgram, VkConfig } from "./config.ts";
import { findNodeIp } from "./addresses.ts";
import { sayWhatIsNotUsed } from "./notices.ts";
import { findPing } from "./probes/ping.ts";
import { defaultProbeTimes } from "./probes/probe.ts";
import { credentialsOf, openRegistryOf } from "./registry.ts";
import { openRuntime } from "./runtime.ts";
import { startVk, type VkOptions } from "./start.ts";

type Hooks = Pick<VkOptions, "beforeStep">;

/** Runs until the signal aborts. Tests stop it between two steps by the hook. */
export async function runVk(
  { config, log, signal }: MainContext<(typeof vkProgram)["options"]>,
  hooks: Hooks = {},
): Promise<void> {
  sayWhatIsNotUsed(config, log);
  await using stack = new AsyncDisposableStack();
  const metrics = createRegistry("vk-cocoon");
  const listen = readListenAddress(config.metricsAddr, "VK_METRICS_ADDR");
  const health = stack.use(await startHealthServer({ ...listen, registry: metrics }));
  const { kubeconfig, context } = config;
  const client = stack.use(
    await openKubeClient({ signal, ...(kubeconfig ? { kubeconfig } : {}), ...(context ? { context } : {}) }),
  );
  const ip = config.nodeIp ?? findNodeIp();
  const certificates = stack.use(
    await fileOrSelfSignedCertificates({
      host: config.nodeName,
      ip,
      certificateFile: config.tlsCert,
      keyFile: config.tlsKey,
      log,
    }),
  );
  await mkdir(config.rootDirectory, { recursive: true, mode: 0o700 });
  const registry = await openRegistryOf(config, log);
  stack.use(registry.client);
  const images = stack.use(
    new RegistrySource({
      registry: registry.client,
      credentials: credentialsOf(config),
    }),
  );
  const runtime = stack.use(await openRuntime(config, { log, signal, images }));
  const ca = await readClientAuthority({ client, file: config.clientCa, signal });
  const ping = await findPing(log);
  const vk = stack.use(
    await startVk({
      client,
      runtime,
      registry: { ...registry, stagingDirectory: join(config.rootDirectory, "vk-staging") },
      api: {
        host: config.kubeletHost,
        port: config.kubeletPort,
        tls: { ...tlsPair(certificates.current()), ca },
        certificates,
      },
      ...(await settingsOf(config, ip)),
      ...(ping ? { ping } : {}),
      ...hooks,
      log,
      metrics,
      signal,
    }),
  );
  log.info({ node: config.nodeName, port: vk.kubelet.apiPort }, "node registered");
  health.markReady();
  await aborted(signal);
  health.markStopping();
}

type Settings = Pick<
  VkOptions,
  | "node"
  | "orphanPolicy"
  | "cloneRoots"
  | "ssh"
  | "sshKeys"
  | "probeTimes"
  | "hibernatedPhase"
  | "idle"
  | "restoreMode"
  | "snapshotConfigMap"
  | "macosBin"
>;

async function settingsOf(config: VkConfig, ip: string): Promise<Settings> {
  const { sshKey, sshPassword, sshUser } = config;
  const [privateKey, publicKey] = sshKey
    ? await Promise.all([readFile(sshKey, "utf8"), readFile(`${sshKey}.pub`, "utf8")])
    : [undefined, undefined];
  return {
    node: {
      name: config.nodeName,
      ip,
      pool: config.nodePool,
      providerId: config.providerId,
      cpuClass: config.snapshotCpuClass,
      rootDirectory: config.rootDirectory,
      reservePercent: config.reservePercent,
      pods: config.nodePods,
      cpu: config.nodeCpu,
      memory: config.nodeMem,
      storage: config.nodeStorage,
      hugepages: config.nodeHugepages,
    },
    orphanPolicy: config.orphanPolicy,
    cloneRoots: config.cloneFromDirRoots,
    ssh: {
      user: sshUser,
      ...(sshPassword ? { password: sshPassword } : {}),
      ...(privateKey ? { privateKey } : {}),
    },
    ...(publicKey ? { sshKeys: [publicKey.trim()] } : {}),
    probeTimes: { ...defaultProbeTimes, readyMs: config.probeReadyMs, failures: config.probeFailures },
    hibernatedPhase: config.hibernatedPhase,
    idle: { sampleMs: config.idleSampleMs, cpuPercent: config.idleCpuPercent },
    restoreMode: config.restoreMode,
    snapshotConfigMap: config.snapshotConfigMap,
    macosBin: config.macosBin,
  };
}
