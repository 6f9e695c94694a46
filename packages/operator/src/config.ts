/** Settings of the operator. Flags, variables and defaults are those that its users know; see docs/operator.md. */
import { optionType, type ConfigOf, type Program } from "@cocoon/core";
import { kubeClientOptions } from "@cocoon/kube";
import { credentialOptions } from "@cocoon/oci";
import * as z from "zod";

/** As documented: a value that is no number means the default, one below 1 stops the start. */
const concurrency = z
  .preprocess(
    (value) => (value === undefined || Number.isNaN(Number(value)) ? 4 : Number(value)),
    z.int().min(1).max(1_000),
  )
  .default(4);

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
    schema: optionType.text("/root/.docker/config.json"),
    description: "docker configuration file with registry credentials, where EPOCH_TOKEN is not set",
    env: ["OPERATOR_DOCKER_CONFIG"],
  },
} as const;

const options = {
  ...kubeClientOptions,
  ...registryOptions,
  metricsBindAddress: {
    schema: z.string().default(":8080"),
    description: "address of the metrics, plain HTTP",
    env: ["METRICS_ADDR"],
  },
  healthProbeBindAddress: {
    schema: z.string().default(":8081"),
    description: "address of /healthz and /readyz",
    env: ["PROBE_ADDR"],
  },
  leaderElect: {
    schema: optionType.bool(true),
    description: "act only while holding the lease",
    env: ["LEADER_ELECT"],
    boolean: true,
    lenientEnv: true,
  },
  leaderElectionNamespace: {
    schema: z.string().optional(),
    description: "namespace of the lease; default the operator's own, else cocoon-system",
    env: ["POD_NAMESPACE"],
  },
  cocoonsetConcurrency: {
    schema: concurrency,
    description: "sets reconciled at once",
    env: ["COCOONSET_CONCURRENCY"],
  },
  hibernationConcurrency: {
    schema: concurrency,
    description: "hibernations reconciled at once",
    env: ["HIBERNATION_CONCURRENCY"],
  },
  watchNamespace: {
    schema: z.string().optional(),
    description: "only objects of this namespace; default all",
    env: ["WATCH_NAMESPACE"],
  },
  legacyApi: {
    schema: optionType.choice(["auto", "on", "off"], "auto"),
    description: "serve cocoon.cis/v1alpha1; auto: when its definitions are installed at start",
    env: ["LEGACY_API"],
  },
  agentSandbox: {
    schema: optionType.bool(false),
    description:
      "serve Sandbox, SandboxTemplate, SandboxClaim and SandboxWarmPool of kubernetes-sigs/agent-sandbox; not beside its own controller",
    env: ["AGENT_SANDBOX"],
    boolean: true,
  },
  resyncPeriod: {
    schema: optionType.durationMs(15_000),
    description: "how often every object is reconsidered from memory; 0: never",
    env: ["RESYNC_PERIOD"],
  },
  logLevel: {
    schema: optionType.logLevel(),
    description: "log level",
    env: ["OPERATOR_LOG_LEVEL"],
  },
} as const;

export const operatorProgram: Program<typeof options> = {
  name: "cocoon-operator",
  summary: "keeps CocoonSets and CocoonHibernations as they are asked for",
  options,
};
export type OperatorConfig = ConfigOf<typeof options>;
