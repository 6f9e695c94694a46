/** Settings of cocoon-gateway. */
import { optionType, tryParseJson, type ConfigOf, type Program } from "@cocoon/core";
import { kubeClientOptions } from "@cocoon/kube";
import { credentialOptions } from "@cocoon/oci";
import * as z from "zod";
import { templatesSchema } from "./sandboxes/templates.ts";

const count = (fallback: number) => z.coerce.number().int().min(1).default(fallback);

/** `base` is what the SDKs ask for; `demo` starts in seconds also where no machine was made yet. */
const defaultTemplates = templatesSchema.parse({
  base: { image: "cocoon-base", memoryMiB: 512, storageMiB: 2048 },
  demo: { image: "cocoon-demo" },
});

const options = {
  ...kubeClientOptions,
  listenAddr: {
    schema: optionType.text(":8080"),
    description: "listener of the API and of traffic to sandboxes, [host]:port",
    env: ["GATEWAY_LISTEN_ADDR"],
  },
  metricsAddr: {
    schema: optionType.text(":9091"),
    description: "metrics and health over plain HTTP, [host]:port",
    env: ["GATEWAY_METRICS_ADDR"],
  },
  tlsCert: {
    schema: optionType.optionalText(),
    description: "serving certificate for api.DOMAIN and *.DOMAIN; without it the listener speaks plain HTTP",
    env: ["GATEWAY_TLS_CERT"],
  },
  tlsKey: { schema: optionType.optionalText(), description: "its key", env: ["GATEWAY_TLS_KEY"] },
  domain: {
    schema: optionType.optionalText(),
    description:
      "domain of the sandboxes' host names, with the port where it is not 443; clients get it with each sandbox",
    env: ["GATEWAY_DOMAIN"],
  },
  templates: {
    schema: z.preprocess(
      (value) => (typeof value === "string" ? tryParseJson(value) : value),
      templatesSchema.default(defaultTemplates),
    ),
    description: "what sandboxes start from, as JSON: name to image, mode, cpus, memoryMiB, storageMiB",
    env: ["GATEWAY_TEMPLATES"],
  },
  seedSecret: {
    schema: optionType.text("cocoon-gateway-seed"),
    description:
      "Secret in cocoon-system that the tokens of sandboxes are computed from; made when it is missing",
    env: ["GATEWAY_SEED_SECRET"],
  },
  maxSandboxes: {
    schema: count(1_000),
    description: "sandboxes that a namespace may have",
    env: ["GATEWAY_MAX_SANDBOXES"],
  },
  warmPool: {
    schema: z.coerce.number().int().min(0).max(100).default(1),
    description:
      "machines that run ahead of the next create, for each template and namespace that makes sandboxes; each takes the memory of a sandbox; 0: none",
    env: ["GATEWAY_WARM_POOL"],
  },
  maxLifeSeconds: {
    schema: count(86_400),
    description: "longest timeout of a sandbox, in seconds",
    env: ["GATEWAY_MAX_LIFE_SECONDS"],
  },
  requestsPerSecond: {
    schema: count(50),
    description: "requests to the control API that a key may make in a second, on average",
    env: ["GATEWAY_REQUESTS_PER_SECOND"],
  },
  maxUploadBytes: {
    schema: count(16 * 2 ** 30),
    description: "size of one upload, unpacked",
    env: ["GATEWAY_MAX_UPLOAD_BYTES"],
  },
  maxHeld: {
    schema: count(1_000),
    description: "requests that wait at the same time until a sleeping machine is ready",
    env: ["GATEWAY_MAX_HELD"],
  },
  wait: {
    schema: optionType.durationMs(55_000),
    description: "how long a request waits for a machine to start, pause or wake",
    env: ["GATEWAY_WAIT"],
  },
  ociRegistry: {
    schema: optionType.optionalText(),
    description:
      "registry that keeps files of COPY steps until their build, host[:port][/prefix]; wins over EPOCH_URL; without either COPY is refused",
    env: ["OCI_REGISTRY"],
  },
  epochUrl: { schema: optionType.optionalText(), description: "epoch server for them", env: ["EPOCH_URL"] },
  ...credentialOptions,
  dockerConfig: {
    schema: optionType.text("/root/.docker/config.json"),
    description: "docker configuration file with registry credentials, where EPOCH_TOKEN is not set",
    env: ["GATEWAY_DOCKER_CONFIG"],
  },
  sandboxRouterAddr: {
    schema: optionType.optionalText(),
    description:
      "listener of the router for clients of agent-sandbox, [host]:port, plain HTTP; without it there is none",
    env: ["GATEWAY_SANDBOX_ROUTER_ADDR"],
  },
  sandboxRouterAuthorization: {
    schema: optionType.choice(["token", "none"], "token"),
    description:
      "who may use that router: token, a bearer token of a user that may patch the Sandbox; none, all that reach it",
    env: ["GATEWAY_SANDBOX_ROUTER_AUTHORIZATION"],
  },
  logLevel: { schema: optionType.logLevel(), description: "log level", env: ["GATEWAY_LOG_LEVEL"] },
} as const;

export const gatewayProgram = {
  name: "cocoon-gateway",
  summary: "Sandboxes for the E2B SDKs on CocoonSets, and traffic to their ports.",
  options,
} as const satisfies Program<typeof options>;

export type GatewayConfig = ConfigOf<(typeof gatewayProgram)["options"]>;
