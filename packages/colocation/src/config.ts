/** Settings of cocoon-colocation. Flags and variables of Koordinator's manager keep their names and defaults. */
import { optionType, type ConfigOf, type Program } from "@cocoon/core";
import { kubeClientOptions } from "@cocoon/kube";
import * as z from "zod";
import { readGates } from "./gates.ts";
import { ruleNames } from "./rules.ts";

const unused = (flag: string) => ({
  schema: optionType.optionalText(),
  flag,
  description: "accepted, not used here",
});

const serverOptions = {
  webhookPort: {
    schema: optionType.port(9443),
    env: ["WEBHOOK_PORT"],
    description: "port of the admission server; 9876 where Koordinator's is replaced",
  },
  webhookBind: {
    schema: optionType.text("0.0.0.0"),
    description: "address that the admission server listens on",
  },
  webhookHost: {
    schema: optionType.text(),
    env: ["WEBHOOK_HOST"],
    description: "host or address by which the API server calls us, instead of the Service",
  },
  webhookUrlPort: {
    schema: optionType.integer(0, { max: 65_535 }),
    description: "port by which the API server calls us with --webhook-host; 0: the port we listen on",
  },
  webhookCertDir: {
    schema: optionType.text("/tmp/koordinator-webhook-certs"),
    env: ["WEBHOOK_CERT_DIR"],
    description: "directory of tls.crt and tls.key with --webhook-cert-writer=fs",
  },
  webhookCertWriter: {
    schema: z.enum(["", "fs", "secret"]).default(""),
    env: ["WEBHOOK_CERT_WRITER"],
    description:
      "fs: certificates come from files that somebody else renews; otherwise from a Secret of our own",
  },
  podNamespace: {
    schema: optionType.text("koordinator-system"),
    env: ["POD_NAMESPACE"],
    description: "namespace of the Service, the Secret and the quota ledger",
  },
  podName: { schema: optionType.text(), env: ["POD_NAME", "HOSTNAME"], description: "name of this replica" },
  secretName: {
    schema: optionType.text(),
    env: ["SECRET_NAME"],
    description:
      "Secret of the certificates; default koordinator-webhook-certs, or webhook-tls where only that exists",
  },
  serviceName: {
    schema: optionType.text("cocoon-colocation"),
    env: ["SERVICE_NAME"],
    description: "Service by which the API server calls us",
  },
  mutatingWebhookName: {
    schema: optionType.text("cocoon-colocation-mutating"),
    env: ["MUTATING_WEBHOOK_NAME"],
    description: "our MutatingWebhookConfiguration; koordinator-mutating-webhook-configuration for a drop-in",
  },
  validatingWebhookName: {
    schema: optionType.text("cocoon-colocation-validating"),
    env: ["VALIDATING_WEBHOOK_NAME"],
    description:
      "our ValidatingWebhookConfiguration; koordinator-validating-webhook-configuration for a drop-in",
  },
  metricsAddr: { schema: optionType.text(":8080"), description: "metrics, [host]:port" },
  healthProbeAddr: { schema: optionType.text(":8000"), description: "health and readiness, [host]:port" },
  logLevel: { schema: optionType.text("info"), description: "trace, debug, info, warn or error" },
} as const;

const ruleOptions = {
  featureGates: {
    schema: optionType.text().superRefine((text, context) => {
      try {
        readGates(text);
      } catch (error) {
        context.addIssue({ code: "custom", message: error instanceof Error ? error.message : String(error) });
      }
    }),
    description: "Name=true,Name=false; see docs/colocation.md",
  },
  warnRules: {
    schema: optionType
      .list()
      .refine((names) => names.every((name) => name === "*" || ruleNames.some((each) => each === name)), {
        error: `must be * or some of ${ruleNames.join(", ")}`,
      }),
    description: "rules that only warn, comma separated; * for all",
  },
  configNamespace: {
    schema: optionType.optionalText(),
    description: "namespace of the SLO configuration; default --pod-namespace",
  },
  sloConfigName: {
    schema: optionType.text("slo-controller-config"),
    description: "ConfigMap of the SLO configuration",
  },
  nodeStrategyNameNeedCheck: {
    schema: optionType.bool(false),
    description: "SLO profiles must have names, each its own",
  },
  maxAmplificationRatio: {
    schema: z.coerce.number({ error: "must be a number" }).min(1, "must be 1 or more").optional(),
    description: "largest ratio that a node's annotation may ask for; default no limit",
  },
  podEnhancedValidatorConfigNamespace: {
    schema: optionType.optionalText(),
    description: "namespace of the rules for required labels; default --pod-namespace",
  },
  podEnhancedValidatorConfigName: {
    schema: optionType.text("pod-enhanced-validator-config"),
    description: "ConfigMap of the rules for required labels",
  },
  bindingAdmissionUserName: {
    schema: optionType.list(),
    description: "who may bind pods: parts of user names, comma separated; empty: everybody",
  },
  bindingAdmissionDryRun: {
    schema: optionType.bool(false),
    boolean: true,
    description: "count, do not refuse",
  },
  bindingAdmissionNamespaces: {
    schema: optionType.list(),
    description: "namespaces that this is for; * for all",
  },
  bindingAdmissionExcludeNamespaces: {
    schema: optionType.list(["kube-system"]),
    description: "namespaces that this is not for",
  },
  bindingAdmissionBypassLabels: {
    schema: optionType.list(["koordinator.sh/binding-admission-bypass"]),
    description: "labels of pods that anybody may bind",
  },
  bindingAdmissionBypassAnnotations: {
    schema: optionType.list(),
    description: "annotations of pods that anybody may bind",
  },
  rateLimit: {
    schema: optionType.integer(0, { max: 1_000_000 }),
    description: "requests per second for each client and endpoint; 0 for no limit",
  },
  rateLimitBurst: {
    schema: optionType.integer(0, { max: 1_000_000 }),
    description: "requests at once under the limit; 0: twice the limit",
  },
  auditLevel: {
    schema: optionType.choice(["none", "changes", "all"], "changes"),
    description: "reviews that are logged: what was refused or changed, all, or none",
  },
} as const;

/** Flags of Koordinator's manager that have nothing to do here: its Deployment starts ours unchanged. */
const acceptedOptions = {
  enableLeaderElection: unused("enable-leader-election"),
  leaderElectionNamespace: unused("leader-election-namespace"),
  enablePprof: unused("enable-pprof"),
  pprofAddr: unused("pprof-addr"),
  namespace: unused("namespace"),
  syncPeriod: unused("sync-period"),
  restConfigQps: unused("rest-config-qps"),
  restConfigBurst: unused("rest-config-burst"),
  podEnhancedValidatorReconcileInterval: unused("pod-enhanced-validator-reconcile-interval"),
  quotaUpdateMaxRetries: unused("quota-update-max-retries"),
  quotaUpdateRetryJitter: unused("quota-update-retry-jitter"),
  quotaUpdateMaxTotalJitter: unused("quota-update-max-total-jitter"),
  quotaUpdateConflictFreshGet: unused("quota-update-conflict-fresh-get"),
} as const;

const options = { ...kubeClientOptions, ...serverOptions, ...ruleOptions, ...acceptedOptions } as const;

export const colocationProgram: Program<typeof options> = {
  name: "cocoon-colocation",
  summary: "Admission of colocated pods, nodes, quotas, reservations and SLO configuration.",
  options,
};

export type ColocationConfig = ConfigOf<typeof options>;

/** Names of the accepted settings that somebody set. */
export function unusedSettings(config: ColocationConfig): string[] {
  return Object.entries(acceptedOptions)
    .filter(([key]) => config[key as keyof typeof acceptedOptions] !== undefined)
    .map(([, { flag }]) => `--${flag}`);
}
