/** Settings of cocoon-webhook. Names and defaults are those that its users know; see docs/webhook.md. */
import { optionType, tryParseDuration, type ConfigOf, type Program } from "@cocoon/core";
import { kubeClientOptions } from "@cocoon/kube";
import { credentialOptions } from "@cocoon/oci";
import * as z from "zod";
import { pinModes } from "./nodes/placement.ts";

/** A duration that falls back to its default when it is not one, or not above zero, as documented. */
const lenientDuration = (fallbackMs: number) =>
  z.preprocess((value) => {
    const parsed = typeof value === "string" ? tryParseDuration(value) : value;
    return typeof parsed === "number" && parsed > 0 ? parsed : undefined;
  }, z.number().default(fallbackMs));

const minute = 60_000;

const option = <S extends z.ZodType>(env: string, schema: S, description: string) => ({
  schema,
  description,
  env: [env],
});
const flag = (env: string, description: string) => ({
  ...option(env, optionType.bool(false), description),
  boolean: true,
});

const servingOptions = {
  listenAddr: option("LISTEN_ADDR", optionType.text(":8443"), "admission listener, [host]:port"),
  metricsAddr: option(
    "METRICS_ADDR",
    optionType.text(":9090"),
    "metrics and health over plain HTTP, [host]:port",
  ),
  tlsCert: option(
    "TLS_CERT",
    optionType.text("/etc/cocoon/webhook/certs/tls.crt"),
    "serving certificate, where certificates come from files",
  ),
  tlsKey: option("TLS_KEY", optionType.text("/etc/cocoon/webhook/certs/tls.key"), "its key"),
  certificates: option(
    "WEBHOOK_CERTIFICATES",
    optionType.choice(["files", "built-in"], "files"),
    "files: renewed by cert-manager or another tool; built-in: an authority of our own in a Secret",
  ),
  certificateSecret: option(
    "WEBHOOK_CERTIFICATE_SECRET",
    optionType.text("cocoon-webhook-tls"),
    "Secret in cocoon-system for built-in certificates",
  ),
  certificateHosts: option(
    "WEBHOOK_CERTIFICATE_HOSTS",
    optionType.list(["cocoon-webhook.cocoon-system.svc", "cocoon-webhook.cocoon-system.svc.cluster.local"]),
    "names and addresses in built-in certificates",
  ),
  mutatingConfiguration: option(
    "WEBHOOK_MUTATING_CONFIGURATION",
    optionType.text("cocoon-webhook-mutate"),
    "MutatingWebhookConfiguration that gets the built-in authority",
  ),
  validatingConfiguration: option(
    "WEBHOOK_VALIDATING_CONFIGURATION",
    optionType.text("cocoon-webhook-validate"),
    "ValidatingWebhookConfiguration that gets the built-in authority",
  ),
  lameDuck: option(
    "WEBHOOK_LAME_DUCK",
    optionType.durationMs(3_000),
    "how long a stopping replica goes on answering",
  ),
} as const;

const ruleOptions = {
  mode: option(
    "WEBHOOK_MODE",
    optionType.choice(["sticky", "gate"], "sticky"),
    "sticky: machines' pods get name, slot and node; gate: only CocoonSets may have machines",
  ),
  podCreators: option(
    "POD_CREATORS",
    optionType.list(["system:serviceaccount:cocoon-system:cocoon-operator"]),
    "users that may create machines' pods in mode gate",
  ),
  pin: option(
    "WEBHOOK_PIN",
    optionType.choice(pinModes, "auto"),
    "auto: spec.nodeName where everything could be checked, else node affinity; affinity: always that",
  ),
  onFailure: option(
    "WEBHOOK_ON_FAILURE",
    optionType.choice(["refuse", "admit"], "refuse"),
    "a pod that cannot get a reservation: refuse it, or admit it unchanged with a warning",
  ),
  keepOff: flag("WEBHOOK_KEEP_OFF", "keep pods that tolerate every taint off VM hosts"),
  guardDeletion: flag(
    "WEBHOOK_GUARD_DELETION",
    "refuse the deletion of workloads whose pods are machines, as a scale-down to none",
  ),
} as const;

const reaperOptions = {
  reaperInterval: option(
    "REAPER_INTERVAL",
    lenientDuration(5 * minute),
    "time between sweeps over all reservations",
  ),
  reaperGrace: option(
    "REAPER_GRACE",
    lenientDuration(30 * minute),
    "how long a slot is kept after its pod has gone",
  ),
  unboundGrace: option(
    "WEBHOOK_UNBOUND_GRACE",
    lenientDuration(1.5 * minute),
    "how long a reservation waits for its pod; above the API server's request timeout",
  ),
} as const;

const registryOptions = {
  ociRegistry: option(
    "OCI_REGISTRY",
    optionType.optionalText(),
    "registry with the machines' snapshots; wins over EPOCH_URL; without either nothing is proven",
  ),
  epochUrl: option("EPOCH_URL", optionType.optionalText(), "epoch server with the machines' snapshots"),
  ...credentialOptions,
  dockerConfig: option(
    "WEBHOOK_DOCKER_CONFIG",
    optionType.text("/root/.docker/config.json"),
    "docker configuration file with registry credentials, where EPOCH_TOKEN is not set",
  ),
} as const;

const processOptions = {
  ...kubeClientOptions,
  logLevel: option("WEBHOOK_LOG_LEVEL", optionType.logLevel(), "log level"),
  replica: option(
    "POD_NAME",
    optionType.optionalText(),
    "name of this replica, unique among them; default the host's name and process",
  ),
} as const;

export const webhookProgram = {
  name: "cocoon-webhook",
  summary: "Admission of MicroVM pods: sticky names and nodes, scale-down guard, validation.",
  options: { ...processOptions, ...servingOptions, ...ruleOptions, ...reaperOptions, ...registryOptions },
} as const satisfies Program<
  typeof processOptions &
    typeof servingOptions &
    typeof ruleOptions &
    typeof reaperOptions &
    typeof registryOptions
>;

export type WebhookConfig = ConfigOf<(typeof webhookProgram)["options"]>;
