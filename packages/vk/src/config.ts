/** Settings of vk-cocoon. Names and defaults are those that its users know; see docs/vk-cocoon.md. */

import { logLevels, type ConfigOf, type Program } from "@cocoon/core";
import { kubeClientOptions } from "@cocoon/kube";
import { snapshotFormats, credentialOptions } from "@cocoon/oci";
import * as z from "zod";
import { isQuantity } from "./node.ts";
import { orphanPolicies } from "./provider/adopt.ts";
import { runtimeOptions, unusedOptions } from "./runtime-options.ts";

const quantity = z.string().refine(isQuantity, "is not a quantity such as 8 or 64Gi").optional();
const whole = (least: number, most: number) => z.coerce.number().int().min(least).max(most);
const list = (separator: string) =>
  z
    .string()
    .default("")
    .transform((text) => text.split(separator).filter((part) => part !== ""));

const nodeOptions = {
  nodeName: {
    schema: z.string().min(1).default("cocoon-pool"),
    description: "name of the node",
    env: ["VK_NODE_NAME"],
  },
  nodeIp: {
    schema: z.ipv4().optional(),
    description: "address of the node; default the first IPv4 address that is not loopback",
    env: ["VK_NODE_IP"],
  },
  nodePool: {
    schema: z.string().min(1).default("default"),
    description: "pool label of the node",
    env: ["VK_NODE_POOL"],
  },
  providerId: {
    schema: z.string().default(""),
    description: "spec.providerID of the node",
    env: ["VK_PROVIDER_ID"],
  },
  reservePercent: {
    schema: whole(0, 100).default(20),
    description: "percent of the host that pods do not get",
    env: ["VK_RESERVE_PERCENT"],
  },
  nodeCpu: { schema: quantity, description: "CPUs instead of the host's", env: ["VK_NODE_CPU"] },
  nodeMem: { schema: quantity, description: "memory instead of the host's", env: ["VK_NODE_MEM"] },
  nodeStorage: { schema: quantity, description: "storage instead of the host's", env: ["VK_NODE_STORAGE"] },
  nodeHugepages: {
    schema: quantity,
    description: "2 MiB huge pages instead of the host's",
    env: ["VK_NODE_HUGEPAGES"],
  },
  nodePods: { schema: whole(1, 10_000).default(256), description: "pods at most", env: ["VK_NODE_PODS"] },
  snapshotCpuClass: {
    schema: z.string().default(""),
    description: "CPU class of this host's snapshots; pods that select another class are refused",
    env: ["VK_SNAPSHOT_CPU_CLASS"],
  },
} as const;

const registryOptions = {
  ociRegistry: {
    schema: z.string().min(1).optional(),
    description: "registry for snapshots, host[:port][/prefix]; wins over EPOCH_URL",
    env: ["OCI_REGISTRY"],
  },
  epochUrl: {
    schema: z.string().min(1).default("http://epoch.cocoon-system.svc:8080"),
    description: "epoch server for snapshots, where OCI_REGISTRY is not set",
    env: ["EPOCH_URL"],
  },
  ...credentialOptions,
  dockerConfig: {
    schema: z.string().default("/root/.docker/config.json"),
    description: "docker configuration file with registry credentials, where EPOCH_TOKEN is not set",
    env: ["VK_DOCKER_CONFIG"],
  },
  snapshotFormat: {
    schema: z.enum(snapshotFormats).optional(),
    description: "format of pushed snapshots; default v2 with OCI_REGISTRY, v1 with EPOCH_URL",
  },
  snapshotZstdLevel: {
    schema: whole(0, 22).default(0),
    description: "0: default level",
    env: ["SNAPSHOT_ZSTD_LEVEL"],
  },
  snapshotChunkSizeMib: {
    schema: whole(0, 1024).default(0),
    description: "0: default size",
    env: ["SNAPSHOT_CHUNK_SIZE_MIB"],
  },
  snapshotTransferConcurrency: {
    schema: whole(1, 64).default(8),
    description: "transfers at a time",
    env: ["SNAPSHOT_TRANSFER_CONCURRENCY"],
  },
  snapshotMemoryBudgetMib: {
    schema: whole(64, 1_048_576).default(9216),
    description: "memory that all pushes together may hold",
    env: ["SNAPSHOT_MEMORY_BUDGET_MIB"],
  },
  snapshotPullBudgetMib: {
    schema: whole(64, 1_048_576).default(2048),
    description: "memory that all pulls together may hold",
    env: ["SNAPSHOT_PULL_BUDGET_MIB"],
  },
  snapshotConfigMap: {
    schema: z.enum(["legacy", "all"]).default("legacy"),
    description:
      "whose machines that sleep are listed in ConfigMap cocoon-vm-snapshots: those of the legacy API, or all",
    env: ["VK_SNAPSHOT_CONFIGMAP"],
  },
} as const;

const guestOptions = {
  sshUser: {
    schema: z.string().min(1).default("root"),
    description: "who commands run as over SSH",
    env: ["VK_SSH_USER"],
  },
  sshPassword: {
    schema: z.string().optional(),
    description: "password for it",
    env: ["VK_SSH_PASSWORD"],
    secret: true,
  },
  sshKey: {
    schema: z.string().optional(),
    description: "private key file; its .pub is given to guests",
    env: ["VK_SSH_KEY"],
  },
  hibernatedPhase: {
    schema: z.enum(["Running", "Pending"]).default("Running"),
    description: "phase of a pod whose machine sleeps",
    env: ["VK_HIBERNATED_PHASE"],
  },
  cloneFromDirRoots: {
    schema: list(":"),
    description: "directories below which clone-from-dir may point, separated by ':'; empty: refused",
    env: ["VK_CLONE_FROM_DIR_ROOTS"],
  },
  probeReadyMs: {
    schema: whole(100, 3_600_000).default(15_000),
    description: "pause between checks of a ready machine",
    env: ["VK_PROBE_READY_MS"],
  },
  probeFailures: {
    schema: whole(1, 100).default(3),
    description: "failures until a machine is not ready",
    env: ["VK_PROBE_FAILURES"],
  },
  idleSampleMs: {
    schema: whole(0, 3_600_000).default(30_000),
    description: "how often it is looked whether a machine is idle; 0: never",
    env: ["VK_IDLE_SAMPLE_MS"],
  },
  idleCpuPercent: {
    schema: z.coerce.number().min(0).max(100).default(2),
    description: "a machine that uses more of its CPUs is not idle",
    env: ["VK_IDLE_CPU_PERCENT"],
  },
} as const;

const processOptions = {
  ...kubeClientOptions,
  logLevel: { schema: z.enum(logLevels).default("info"), description: "log level", env: ["VK_LOG_LEVEL"] },
  orphanPolicy: {
    schema: z
      .string()
      .default("alert")
      .transform((text) => text.toLowerCase())
      .pipe(z.enum(orphanPolicies)),
    description: "VMs at start that no pod claims: alert, destroy or keep",
    env: ["VK_ORPHAN_POLICY"],
  },
  rootDirectory: {
    schema: z.string().min(1).default("/var/lib/cocoon"),
    description: "where VMs live",
    env: ["COCOON_ROOT_DIR"],
  },
  imageDirectory: {
    schema: z.string().min(1).optional(),
    description:
      "images that machines boot from; several nodes of one host may share it; default below the root",
    env: ["COCOON_IMAGE_DIR"],
  },
  kubeletPort: {
    schema: whole(0, 65_535).default(10_250),
    description: "port of the kubelet API",
    env: ["VK_KUBELET_PORT"],
  },
  kubeletHost: {
    schema: z.string().default("0.0.0.0"),
    description: "address of the kubelet API",
    env: ["VK_KUBELET_HOST"],
  },
  tlsCert: {
    schema: z.string().default("/etc/cocoon/vk/tls/vk-kubelet.crt"),
    description: "serving certificate",
    env: ["VK_TLS_CERT"],
  },
  tlsKey: {
    schema: z.string().default("/etc/cocoon/vk/tls/vk-kubelet.key"),
    description: "its key",
    env: ["VK_TLS_KEY"],
  },
  clientCa: {
    schema: z.string().optional(),
    description:
      "PEM file of the authority whose client certificates are accepted; default what the API server publishes",
    env: ["VK_CLIENT_CA"],
  },
  metricsAddr: {
    schema: z.string().default(":9091"),
    description: "metrics and health, [host]:port",
    env: ["VK_METRICS_ADDR"],
  },
} as const;

export const vkProgram = {
  name: "vk-cocoon",
  summary: "A kubelet whose pods are MicroVMs.",
  options: {
    ...processOptions,
    ...nodeOptions,
    ...registryOptions,
    ...guestOptions,
    ...runtimeOptions,
    ...unusedOptions,
  },
} as const satisfies Program<
  typeof processOptions &
    typeof nodeOptions &
    typeof registryOptions &
    typeof guestOptions &
    typeof runtimeOptions &
    typeof unusedOptions
>;

export type VkConfig = ConfigOf<(typeof vkProgram)["options"]>;
