/** Settings of vk-cocoon. Names and defaults are those that its users know; see docs/vk-cocoon.md. */
import { optionType, type ConfigOf, type Program } from "@cocoon/core";
import { kubeClientOptions } from "@cocoon/kube";
import { snapshotFormats, credentialOptions } from "@cocoon/oci";
import * as z from "zod";
import { isQuantity } from "./node.ts";
import { defaultProbeTimes } from "./probes/probe.ts";
import { orphanPolicies } from "./provider/orphans.ts";
import { option, runtimeOptions, unusedOptions } from "./runtime-options.ts";

const quantity = z.string().refine(isQuantity, "is not a quantity such as 8 or 64Gi").optional();
const whole = (least: number, most: number) => z.coerce.number().int().min(least).max(most);
const list = (separator: string) =>
  z
    .string()
    .default("")
    .transform((text) => text.split(separator).filter((part) => part !== ""));

const nodeOptions = {
  nodeName: option(
    "VK_NODE_NAME",
    "name of the node; default the host's name, in lower case",
    z.string().min(1).optional(),
  ),
  nodeIp: option(
    "VK_NODE_IP",
    "address of the node; default the first IPv4 address that is not loopback",
    z.ipv4().optional(),
  ),
  nodePool: option("VK_NODE_POOL", "pool label of the node", z.string().min(1).default("default")),
  providerId: option("VK_PROVIDER_ID", "spec.providerID of the node", z.string().default("")),
  reservePercent: option(
    "VK_RESERVE_PERCENT",
    "percent of the host that pods do not get",
    whole(0, 100).default(20),
  ),
  nodeCpu: option("VK_NODE_CPU", "CPUs instead of the host's", quantity),
  nodeMem: option("VK_NODE_MEM", "memory instead of the host's", quantity),
  nodeStorage: option("VK_NODE_STORAGE", "storage instead of the host's", quantity),
  nodeHugepages: option("VK_NODE_HUGEPAGES", "2 MiB huge pages instead of the host's", quantity),
  nodePods: option("VK_NODE_PODS", "pods at most", whole(1, 10_000).default(256)),
  snapshotCpuClass: option(
    "VK_SNAPSHOT_CPU_CLASS",
    "CPU class of this host's snapshots; pods that select another class are refused",
    z.string().default(""),
  ),
} as const;

const registryOptions = {
  ociRegistry: option(
    "OCI_REGISTRY",
    "registry for snapshots, host[:port][/prefix]; wins over EPOCH_URL",
    z.string().min(1).optional(),
  ),
  epochUrl: option(
    "EPOCH_URL",
    "epoch server for snapshots, where OCI_REGISTRY is not set",
    z.string().min(1).default("http://epoch.cocoon-system.svc:8080"),
  ),
  ...credentialOptions,
  dockerConfig: option(
    "VK_DOCKER_CONFIG",
    "docker configuration file with registry credentials, where EPOCH_TOKEN is not set",
    z.string().default("/root/.docker/config.json"),
  ),
  snapshotFormat: {
    schema: z.enum(snapshotFormats).optional(),
    description:
      "format of pushed snapshots: packed where all readers are Cocoon's own, as its installs set it; default v2 with OCI_REGISTRY, v1 with EPOCH_URL",
  },
  chunkStoreMib: {
    schema: whole(64, 1_048_576_000).default(20_480),
    description: "disk for content of packed snapshots that is neither sent nor fetched again",
    env: ["VK_CHUNK_STORE_MIB"],
  },
  lazyWake: option(
    "VK_LAZY_WAKE",
    "auto: machines run before their memory and disks are here, where the host and the snapshot allow it; never: snapshots are pulled whole first",
    z.enum(["auto", "never"]).default("auto"),
  ),
  snapshotZstdLevel: option("SNAPSHOT_ZSTD_LEVEL", "0: default level", whole(0, 22).default(0)),
  snapshotChunkSizeMib: option("SNAPSHOT_CHUNK_SIZE_MIB", "0: default size", whole(0, 1024).default(0)),
  snapshotTransferConcurrency: option(
    "SNAPSHOT_TRANSFER_CONCURRENCY",
    "transfers at a time",
    whole(1, 64).default(8),
  ),
  snapshotMemoryBudgetMib: option(
    "SNAPSHOT_MEMORY_BUDGET_MIB",
    "memory that all pushes together may hold",
    whole(64, 1_048_576).default(9216),
  ),
  snapshotPullBudgetMib: option(
    "SNAPSHOT_PULL_BUDGET_MIB",
    "memory that all pulls together may hold",
    whole(64, 1_048_576).default(2048),
  ),
  gcIntervalMs: option(
    "VK_GC_INTERVAL_MS",
    "how often unused images and pulled snapshots are removed from the node; 0: never",
    whole(0, 86_400_000).default(600_000),
  ),
  snapshotCacheMaxMib: option(
    "VK_SNAPSHOT_CACHE_MAX_MIB",
    "disk that snapshots pulled for clones may take on the node",
    whole(0, 1_048_576_000).default(20_480),
  ),
  snapshotCacheMaxHours: option(
    "VK_SNAPSHOT_CACHE_MAX_HOURS",
    "age at which a snapshot pulled for clones is removed from the node",
    whole(1, 87_600).default(168),
  ),
  snapshotCachePinned: option(
    "VK_SNAPSHOT_CACHE_PINNED",
    "names of pulled snapshots that stay on the node",
    list(","),
  ),
  snapshotConfigMap: option(
    "VK_SNAPSHOT_CONFIGMAP",
    "whose machines that sleep are listed in ConfigMap cocoon-vm-snapshots: those of the legacy API, or all",
    z.enum(["legacy", "all"]).default("legacy"),
  ),
} as const;

const guestOptions = {
  sshUser: option("VK_SSH_USER", "who commands run as over SSH", z.string().min(1).default("root")),
  sshPassword: { ...option("VK_SSH_PASSWORD", "password for it", z.string().optional()), secret: true },
  sshKey: option("VK_SSH_KEY", "private key file; its .pub is given to guests", z.string().optional()),
  hibernatedPhase: option(
    "VK_HIBERNATED_PHASE",
    "phase of a pod whose machine sleeps",
    z.enum(["Running", "Pending"]).default("Running"),
  ),
  cloneFromDirRoots: option(
    "VK_CLONE_FROM_DIR_ROOTS",
    "directories below which clone-from-dir may point, separated by ':'; empty: refused",
    list(":"),
  ),
  probeFirstMs: option(
    "VK_PROBE_FIRST_MS",
    "pause before the second check of a machine that is not ready",
    whole(10, 60_000).default(defaultProbeTimes.firstMs),
  ),
  probeGrowth: option(
    "VK_PROBE_GROWTH",
    "factor by which that pause grows",
    z.coerce.number().min(1).max(10).default(defaultProbeTimes.growth),
  ),
  probeMaxMs: option(
    "VK_PROBE_MAX_MS",
    "longest pause between checks of a machine that is not ready",
    whole(10, 3_600_000).default(defaultProbeTimes.maxMs),
  ),
  probeReadyMs: option(
    "VK_PROBE_READY_MS",
    "pause between checks of a ready machine",
    whole(100, 3_600_000).default(defaultProbeTimes.readyMs),
  ),
  probeFailures: option(
    "VK_PROBE_FAILURES",
    "failures until a machine is not ready",
    whole(1, 100).default(defaultProbeTimes.failures),
  ),
  idleSampleMs: option(
    "VK_IDLE_SAMPLE_MS",
    "how often it is looked whether a machine is idle; 0: never",
    whole(0, 3_600_000).default(30_000),
  ),
  idleCpuPercent: option(
    "VK_IDLE_CPU_PERCENT",
    "a machine that uses more of its CPUs is not idle",
    z.coerce.number().min(0).max(100).default(2),
  ),
} as const;

const processOptions = {
  ...kubeClientOptions,
  logLevel: option("VK_LOG_LEVEL", "log level", optionType.logLevel()),
  otlpEndpoint: option(
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OpenTelemetry collector (OTLP over HTTP, such as http://collector:4318) that gets a trace of each hibernation and wake; default none",
    z.url().optional(),
  ),
  orphanPolicy: option(
    "VK_ORPHAN_POLICY",
    "VMs at start that no pod claims: alert, destroy or keep",
    z
      .string()
      .default("alert")
      .transform((text) => text.toLowerCase())
      .pipe(z.enum(orphanPolicies)),
  ),
  rootDirectory: option("COCOON_ROOT_DIR", "where VMs live", z.string().min(1).default("/var/lib/cocoon")),
  imageDirectory: option(
    "COCOON_IMAGE_DIR",
    "images that machines boot from; several nodes of one host may share it; default below the root",
    z.string().min(1).optional(),
  ),
  kubeletPort: option("VK_KUBELET_PORT", "port of the kubelet API", whole(0, 65_535).default(10_250)),
  kubeletHost: option("VK_KUBELET_HOST", "address of the kubelet API", z.string().default("0.0.0.0")),
  tlsCert: option(
    "VK_TLS_CERT",
    "serving certificate",
    z.string().default("/etc/cocoon/vk/tls/vk-kubelet.crt"),
  ),
  tlsKey: option("VK_TLS_KEY", "its key", z.string().default("/etc/cocoon/vk/tls/vk-kubelet.key")),
  clientCa: option(
    "VK_CLIENT_CA",
    "PEM file of the authority whose client certificates are accepted; default what the API server publishes",
    z.string().optional(),
  ),
  metricsAddr: option("VK_METRICS_ADDR", "metrics and health, [host]:port", z.string().default(":9091")),
} as const;

const options = {
  ...processOptions,
  ...nodeOptions,
  ...registryOptions,
  ...guestOptions,
  ...runtimeOptions,
  ...unusedOptions,
} as const;

export const vkProgram = {
  name: "vk-cocoon",
  summary: "A kubelet whose pods are MicroVMs.",
  options,
} as const satisfies Program<typeof options>;

export type VkConfig = ConfigOf<typeof options>;
