/** vk-cocoon out of its settings. Wiring only. */
import { mkdir, readFile } from "node:fs/promises";
import { hostname } from "node:os";
import {
  aborted,
  createRegistry,
  Fault,
  findNodeIp,
  readListenAddress,
  startHealthServer,
  type MainContext,
} from "@cocoon/core";
import { configMaps, openKubeClient, type KubeClient } from "@cocoon/kube";
import { fileOrSelfSignedCertificates, tlsPair } from "@cocoon/kube/certificates";
import { RegistrySource } from "@cocoon/images";
import type { vkProgram, VkConfig } from "./config.ts";
import { chooseNodeName, type NodeSettings } from "./node.ts";
import { warnIgnoredOptions } from "./notices.ts";
import { readHostDns } from "./pod-network.ts";
import { findPing } from "./probes/ping.ts";
import { readCredentials, openSnapshotRegistry } from "./registry.ts";
import { openRuntime, readImagePolicy } from "./runtime.ts";
import { startVk, type VkOptions } from "./start.ts";
import { openTracer } from "./tracing/open-tracer.ts";

type Hooks = Pick<VkOptions, "beforeStep">;

/** Runs until the signal aborts. Tests stop it between two steps by the hook. */
export async function runVk(
  { config, log, signal }: MainContext<(typeof vkProgram)["options"]>,
  hooks: Hooks = {},
): Promise<void> {
  warnIgnoredOptions(config, log);
  await using stack = new AsyncDisposableStack();
  const metrics = createRegistry("vk-cocoon");
  const listen = readListenAddress(config.metricsAddr, "VK_METRICS_ADDR");
  const health = stack.use(await startHealthServer({ ...listen, registry: metrics }));
  const { kubeconfig, context } = config;
  const client = stack.use(await openKubeClient({ signal, kubeconfig, context }));
  const node = {
    name: chooseNodeName(config.nodeName, hostname()),
    ip: config.nodeIp ?? findNodeIp("VK_NODE_IP"),
  };
  const certificates = stack.use(
    await fileOrSelfSignedCertificates({
      host: node.name,
      ip: node.ip,
      certificateFile: config.tlsCert,
      keyFile: config.tlsKey,
      log,
    }),
  );
  await mkdir(config.rootDirectory, { recursive: true, mode: 0o700 });
  const registry = await openSnapshotRegistry(config, log);
  stack.use(registry.client);
  const access = { credentials: readCredentials(config), policy: readImagePolicy(config) };
  const images = stack.use(new RegistrySource({ registry: registry.client, ...access }));
  const { honoursPolicies, ...opened } = await openRuntime(config, { log, signal, images, metrics });
  stack.use(opened.runtime);
  const ca = await readClientAuthority(client, config.clientCa, signal);
  const ping = await findPing(log);
  const vk = stack.use(
    await startVk({
      client,
      ...opened,
      registry: { ...registry, directory: config.rootDirectory },
      api: {
        host: config.kubeletHost,
        port: config.kubeletPort,
        tls: { ...tlsPair(certificates.current()), ca },
        certificates,
      },
      ...(await readSettings(config, { ...node, honoursPolicies })),
      ...(ping ? { ping } : {}),
      ...hooks,
      log,
      tracer: stack.use(await openTracer({ endpoint: config.otlpEndpoint, node: node.name })).tracer,
      metrics,
      signal,
    }),
  );
  log.info({ node: node.name, port: vk.kubelet.apiPort }, "node registered");
  health.addCheck("listener", () => vk.kubelet.checkListener());
  health.markReady();
  await Promise.race([aborted(signal), vk.kubelet.failed]);
  health.markStopping();
}

async function readSettings(
  config: VkConfig,
  { name, ip, honoursPolicies }: Required<Pick<NodeSettings, "name" | "ip" | "honoursPolicies">>,
) {
  const { sshKey, sshPassword, sshUser } = config;
  const [privateKey, publicKey] = sshKey
    ? await Promise.all([readFile(sshKey, "utf8"), readFile(`${sshKey}.pub`, "utf8")])
    : [undefined, undefined];
  return {
    node: {
      name,
      ip,
      pool: config.nodePool,
      providerId: config.providerId,
      cpuClass: config.snapshotCpuClass,
      honoursPolicies,
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
    probeTimes: {
      firstMs: config.probeFirstMs,
      growth: config.probeGrowth,
      maxMs: config.probeMaxMs,
      readyMs: config.probeReadyMs,
      failures: config.probeFailures,
    },
    hibernatedPhase: config.hibernatedPhase,
    idle: { sampleMs: config.idleSampleMs, cpuPercent: config.idleCpuPercent },
    localGc: {
      intervalMs: config.gcIntervalMs,
      maxBytes: config.snapshotCacheMaxMib * 1024 ** 2,
      maxAgeMs: config.snapshotCacheMaxHours * 3_600_000,
      pinned: config.snapshotCachePinned,
    },
    dns: {
      clusterServers: config.clusterDns ?? [],
      clusterDomain: config.clusterDomain,
      ...(await readHostDns()),
    },
    restoreMode: config.restoreMode,
    snapshotConfigMap: config.snapshotConfigMap,
  };
}

/** Whose client certificates the kubelet API accepts: a file, else what the API server itself publishes. */
async function readClientAuthority(
  client: KubeClient,
  file: string | undefined,
  signal: AbortSignal,
): Promise<string> {
  if (file) return readFile(file, "utf8");
  const key = { namespace: "kube-system", name: "extension-apiserver-authentication" };
  const authority = (await client.get(configMaps, key, { signal })).data?.["client-ca-file"];
  if (authority) return authority;
  throw new Fault(
    "invalid",
    "the API server publishes no client authority; name one with VK_CLIENT_CA (a PEM file)",
  );
}
