/** Settings of cocoon-webhook. Names and defaults are those that its users know; see docs/webhook.md. */
import { logLevels, optionType, tryParseDuration, type ConfigOf, type Program } from "@cocoon/core";
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

const servingOptions = {
  listenAddr: {
    schema: optionType.text(":8443"),
    description: "admission listener, [host]:port",
    env: ["LISTEN_ADDR"],
  },
  metricsAddr: {
    schema: optionType.text(":9090"),
    description: "metrics and health over plain HTTP, [host]:port",
    env: ["METRICS_ADDR"],
  },
  tlsCert: {
    schema: optionType.text("/etc/cocoon/webhook/certs/tls.crt"),
    description: "serving certificate, where certificates come from files",
    env: ["TLS_CERT"],
  },
  tlsKey: {
    schema: optionType.text("/etc/cocoon/webhook/certs/tls.key"),
    description: "its key",
    env: ["TLS_KEY"],
  },
  certificates: {
    schema: optionType.choice(["files", "built-in"], "files"),
    description:
      "files: somebody else (cert-manager) renews them; built-in: an authority of our own in a Secret",
    env: ["WEBHOOK_CERTIFICATES"],
  },
  certificateSecret: {
    schema: optionType.text("cocoon-webhook-tls"),
    description: "Secret in cocoon-system for built-in certificates",
    env: ["WEBHOOK_CERTIFICATE_SECRET"],
  },
  certificateHosts: {
    schema: optionType.list([
      "cocoon-webhook.cocoon-system.svc",
      "cocoon-webhook.cocoon-system.svc.cluster.local",
    ]),
    description: "names and addresses in built-in certificates",
    env: ["WEBHOOK_CERTIFICATE_HOSTS"],
  },
  mutatingConfiguration: {
    schema: optionType.text("cocoon-webhook-mutate"),
    description: "MutatingWebhookConfiguration that gets the built-in authority",
    env: ["WEBHOOK_MUTATING_CONFIGURATION"],
  },
  validatingConfiguration: {
    schema: optionType.text("cocoon-webhook-validate"),
    description: "ValidatingWebhookConfiguration that gets the built-in authority",
    env: ["WEBHOOK_VALIDATING_CONFIGURATION"],
  },
  lameDuck: {
    schema: optionType.durationMs(3_000),
    description: "how long a stopping replica goes on answering",
    env: ["WEBHOOK_LAME_DUCK"],
  },
} as const;

const ruleOptions = {
  mode: {
    schema: optionType.choice(["sticky", "gate"], "sticky"),
    description: "sticky: machines' pods get name, slot and node; gate: only CocoonSets may have machines",
    env: ["WEBHOOK_MODE"],
  },
  podCreators: {
    schema: optionType.list(["system:serviceaccount:cocoon-system:cocoon-operator"]),
    description: "users that may create machines' pods in mode gate",
    env: ["POD_CREATORS"],
  },
  pin: {
    schema: optionType.choice(pinModes, "auto"),
    description:
      "auto: spec.nodeName where everything could be checked, else node affinity; affinity: always that",
    env: ["WEBHOOK_PIN"],
  },
  onFailure: {
    schema: optionType.choice(["refuse", "admit"], "refuse"),
    description: "a pod that cannot get a reservation: refuse it, or admit it unchanged with a warning",
    env: ["WEBHOOK_ON_FAILURE"],
  },
  keepOff: {
    schema: optionType.bool(false),
    boolean: true,
    description: "keep pods that tolerate every taint off VM hosts",
    env: ["WEBHOOK_KEEP_OFF"],
  },
  guardDeletion: {
    schema: optionType.bool(true),
    boolean: true,
    description: "refuse the deletion of workloads whose pods are machines, as a scale-down to none",
    env: ["WEBHOOK_GUARD_DELETION"],
  },
} as const;

const reaperOptions = {
  reaperInterval: {
    schema: lenientDuration(5 * minute),
    description: "time between sweeps over all reservations",
    env: ["REAPER_INTERVAL"],
  },
  reaperGrace: {
    schema: lenientDuration(30 * minute),
    description: "how long a slot is kept after its pod has gone",
    env: ["REAPER_GRACE"],
  },
  unboundGrace: {
    schema: lenientDuration(1.5 * minute),
    description: "how long a reservation waits for its pod; above the API server's request timeout",
    env: ["WEBHOOK_UNBOUND_GRACE"],
  },
} as const;

const registryOptions = {
  ociRegistry: {
    schema: optionType.optionalText(),
    description:
      "registry with the machines' snapshots; wins over EPOCH_URL; without either nothing is proven",
    env: ["OCI_REGISTRY"],
  },
  epochUrl: {
    schema: optionType.optionalText(),
    description: "epoch server with the machines' snapshots",
    env: ["EPOCH_URL"],
  },
  ...credentialOptions,
  dockerConfig: {
    schema: optionType.text("/root/.docker/config.json"),
    description: "docker configuration file with registry credentials, where EPOCH_TOKEN is not set",
    env: ["WEBHOOK_DOCKER_CONFIG"],
  },
} as const;

const processOptions = {
  ...kubeClientOptions,
  logLevel: {
    schema: z.enum(logLevels).default("info"),
    description: "log level",
    env: ["WEBHOOK_LOG_LEVEL"],
  },
  replica: {
    schema: optionType.optionalText(),
    description: "name of this replica, unique among them; default the host's name and process",
    env: ["POD_NAME"],
  },
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
