/** Settings of cocoon-colocation. Flags and variables of Koordinator's manager keep their names and defaults. */
import { optionType, type ConfigOf, type Option, type Program } from "@cocoon/core";
import { kubeClientOptions } from "@cocoon/kube";
import * as z from "zod";
import { readGates } from "./gates.ts";
import { ruleNames } from "./rules.ts";

function option<S extends z.ZodType>(
  schema: S,
  description: string,
  more: Pick<Option, "env" | "boolean"> = {},
): Option<S> {
  return { schema, description, ...more };
}

const unused = (flag: string) => ({
  schema: optionType.optionalText(),
  flag,
  description: "accepted, not used here",
});
const unusedBoolean = (flag: string) => ({ ...unused(flag), boolean: true });

const serverOptions = {
  webhookPort: option(
    optionType.port(9443),
    "port of the admission server; 9876 where Koordinator's is replaced",
    { env: ["WEBHOOK_PORT"] },
  ),
  webhookBind: option(optionType.text("0.0.0.0"), "address that the admission server listens on"),
  webhookHost: option(
    optionType.text(),
    "host or address by which the API server calls us, instead of the Service",
    { env: ["WEBHOOK_HOST"] },
  ),
  webhookUrlPort: option(
    optionType.integer(0, { max: 65_535 }),
    "port by which the API server calls us with --webhook-host; 0: the port we listen on",
  ),
  webhookCertDir: option(
    optionType.text("/tmp/koordinator-webhook-certs"),
    "directory of tls.crt and tls.key with --webhook-cert-writer=fs",
    { env: ["WEBHOOK_CERT_DIR"] },
  ),
  webhookCertWriter: option(
    z.enum(["", "fs", "secret"]).default(""),
    "fs: certificates come from files that another tool renews; otherwise from a Secret of our own",
    { env: ["WEBHOOK_CERT_WRITER"] },
  ),
  podNamespace: option(
    optionType.text("koordinator-system"),
    "namespace of the Service, the Secret and the ConfigMap of quota changes",
    { env: ["POD_NAMESPACE"] },
  ),
  podName: option(optionType.text(), "name of this replica", { env: ["POD_NAME", "HOSTNAME"] }),
  secretName: option(
    optionType.text(),
    "Secret of the certificates; default koordinator-webhook-certs, or webhook-tls where only that exists",
    { env: ["SECRET_NAME"] },
  ),
  serviceName: option(optionType.text("cocoon-colocation"), "Service by which the API server calls us", {
    env: ["SERVICE_NAME"],
  }),
  mutatingWebhookName: option(
    optionType.text("cocoon-colocation-mutating"),
    "our MutatingWebhookConfiguration; koordinator-mutating-webhook-configuration for a drop-in",
    { env: ["MUTATING_WEBHOOK_NAME"] },
  ),
  validatingWebhookName: option(
    optionType.text("cocoon-colocation-validating"),
    "our ValidatingWebhookConfiguration; koordinator-validating-webhook-configuration for a drop-in",
    { env: ["VALIDATING_WEBHOOK_NAME"] },
  ),
  metricsAddr: option(optionType.text(":8080"), "metrics, [host]:port"),
  healthProbeAddr: option(optionType.text(":8000"), "health and readiness, [host]:port"),
  logLevel: option(optionType.text("info"), "trace, debug, info, warn or error"),
} as const;

const ruleOptions = {
  featureGates: option(
    optionType.text().superRefine((text, context) => {
      try {
        readGates(text);
      } catch (error) {
        context.addIssue({ code: "custom", message: error instanceof Error ? error.message : String(error) });
      }
    }),
    "Name=true,Name=false; see docs/colocation.md",
  ),
  warnRules: option(
    optionType
      .list()
      .refine((names) => names.every((name) => name === "*" || ruleNames.some((each) => each === name)), {
        error: `must be * or some of ${ruleNames.join(", ")}`,
      }),
    "rules that only warn, comma separated; * for all",
  ),
  configNamespace: option(
    optionType.optionalText(),
    "namespace of the SLO configuration; default --pod-namespace",
  ),
  sloConfigName: option(optionType.text("slo-controller-config"), "ConfigMap of the SLO configuration"),
  nodeStrategyNameNeedCheck: option(optionType.bool(false), "SLO profiles must have names, each its own", {
    boolean: true,
  }),
  maxAmplificationRatio: option(
    z.coerce.number({ error: "must be a number" }).min(1, "must be 1 or more").optional(),
    "largest ratio that a node's annotation may ask for; default no limit",
  ),
  podEnhancedValidatorConfigNamespace: option(
    optionType.optionalText(),
    "namespace of the rules for required labels; default --pod-namespace",
  ),
  podEnhancedValidatorConfigName: option(
    optionType.text("pod-enhanced-validator-config"),
    "ConfigMap of the rules for required labels",
  ),
  bindingAdmissionUserName: option(
    optionType.list(),
    "who may bind pods: parts of user names, comma separated; empty: every user",
  ),
  bindingAdmissionDryRun: option(optionType.bool(false), "count, do not refuse", { boolean: true }),
  bindingAdmissionNamespaces: option(optionType.list(), "namespaces that this is for; * for all"),
  bindingAdmissionExcludeNamespaces: option(
    optionType.list(["kube-system"]),
    "namespaces that this is not for",
  ),
  bindingAdmissionBypassLabels: option(
    optionType.list(["koordinator.sh/binding-admission-bypass"]),
    "labels of pods that every user may bind",
  ),
  bindingAdmissionBypassAnnotations: option(
    optionType.list(),
    "annotations of pods that every user may bind",
  ),
  rateLimit: option(
    optionType.integer(0, { max: 1_000_000 }),
    "requests per second for each client and endpoint; 0 for no limit",
  ),
  rateLimitBurst: option(
    optionType.integer(0, { max: 1_000_000 }),
    "requests at once under the limit; 0: twice the limit",
  ),
  auditLevel: option(
    optionType.choice(["none", "changes", "all"], "changes"),
    "reviews that are logged: what was refused or changed, all, or none",
  ),
} as const;

/** Flags of Koordinator's manager that have nothing to do here: its Deployment starts ours unchanged. */
const acceptedOptions = {
  enableLeaderElection: unusedBoolean("enable-leader-election"),
  leaderElectionNamespace: unused("leader-election-namespace"),
  enablePprof: unusedBoolean("enable-pprof"),
  pprofAddr: unused("pprof-addr"),
  namespace: unused("namespace"),
  syncPeriod: unused("sync-period"),
  restConfigQps: unused("rest-config-qps"),
  restConfigBurst: unused("rest-config-burst"),
  podEnhancedValidatorReconcileInterval: unused("pod-enhanced-validator-reconcile-interval"),
  quotaUpdateMaxRetries: unused("quota-update-max-retries"),
  quotaUpdateRetryJitter: unused("quota-update-retry-jitter"),
  quotaUpdateMaxTotalJitter: unused("quota-update-max-total-jitter"),
  quotaUpdateConflictFreshGet: unusedBoolean("quota-update-conflict-fresh-get"),
} as const;

const options = { ...kubeClientOptions, ...serverOptions, ...ruleOptions, ...acceptedOptions } as const;

export const colocationProgram: Program<typeof options> = {
  name: "cocoon-colocation",
  summary: "Admission of colocated pods, nodes, quotas, reservations and SLO configuration.",
  options,
};

export type ColocationConfig = ConfigOf<typeof options>;

export function unusedSettings(config: ColocationConfig): string[] {
  return Object.entries(acceptedOptions)
    .filter(([key]) => config[key as keyof typeof acceptedOptions] !== undefined)
    .map(([, { flag }]) => `--${flag}`);
}
