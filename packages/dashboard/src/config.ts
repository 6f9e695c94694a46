/** Settings of the dashboard; see docs/dashboard.md. */
import { join } from "node:path";
import { optionType, type ConfigOf, type Program } from "@cocoon/core";
import { kubeClientOptions } from "@cocoon/kube";
import * as z from "zod";

/** Where the page is, when none is named: made by the build, beside the program. */
export const builtPage = join(import.meta.dirname, "../../../node_modules/.cache/dashboard/current");

const options = {
  ...kubeClientOptions,
  listenAddr: {
    schema: optionType.text("127.0.0.1:8750"),
    description: "address of the page; beyond loopback it needs a certificate or --behind-proxy",
    env: ["DASHBOARD_LISTEN_ADDR"],
  },
  metricsAddr: {
    schema: optionType.text("127.0.0.1:8751"),
    description: "address of metrics and health, plain HTTP",
    env: ["METRICS_ADDR"],
  },
  tlsCert: {
    schema: optionType.optionalText(),
    description: "certificate file of the page",
    env: ["TLS_CERT"],
  },
  tlsKey: { schema: optionType.optionalText(), description: "key file of the certificate", env: ["TLS_KEY"] },
  behindProxy: {
    schema: optionType.bool(false),
    description: "serve plain HTTP beyond loopback, because a proxy in front ends TLS",
    env: ["DASHBOARD_BEHIND_PROXY"],
    boolean: true,
  },
  sessionKey: {
    schema: z
      .string()
      .regex(/^[0-9a-fA-F]{64,}$/, "must be at least 64 hexadecimal digits: openssl rand -hex 32")
      .optional(),
    description: "key of session cookies, hexadecimal; unset: random, so a restart signs all users out",
    env: ["DASHBOARD_SESSION_KEY"],
    secret: true,
  },
  sessionTime: {
    schema: optionType.durationMs(12 * 3_600_000),
    description: "how long a user stays signed in",
    env: ["DASHBOARD_SESSION_TIME"],
  },
  oidcIssuer: {
    schema: optionType.optionalText(),
    description: "OpenID Connect provider to sign in with; the API server must accept its ID tokens",
    env: ["DASHBOARD_OIDC_ISSUER"],
  },
  oidcClientId: {
    schema: optionType.optionalText(),
    description: "client of that provider, with https://THIS-PAGE/oidc as its redirect address",
    env: ["DASHBOARD_OIDC_CLIENT_ID"],
  },
  oidcClientSecret: {
    schema: optionType.optionalText(),
    description: "secret of the client, where it has one",
    env: ["DASHBOARD_OIDC_CLIENT_SECRET"],
    secret: true,
  },
  oidcScopes: {
    schema: optionType.text("openid profile email"),
    description: "what is asked of the provider; add groups where the API server reads them",
    env: ["DASHBOARD_OIDC_SCOPES"],
  },
  oidcCaCert: {
    schema: optionType.optionalText(),
    description: "file with the provider's certificate authority",
    env: ["DASHBOARD_OIDC_CA_CERT"],
  },
  readOnly: {
    schema: optionType.bool(false),
    description: "refuse every change, exec and attach, whatever the user's rights are",
    env: ["DASHBOARD_READ_ONLY"],
    boolean: true,
  },
  metricsTargets: {
    schema: optionType.list(),
    description: "metrics of parts for the health page: name=http://host:port/metrics,…",
    env: ["DASHBOARD_METRICS_TARGETS"],
  },
  gateway: {
    schema: z
      .string()
      .regex(
        /^(https:\/\/\{port\}-\{machine\}\.\{namespace\}\.[-a-z0-9.]+(:\d+)?|http:\/\/\{port\}-\{machine\}\.\{namespace\}\.localhost(:\d+)?)$/,
        "must be https://{port}-{machine}.{namespace}.DOMAIN, or http:// with the domain localhost",
      )
      .optional(),
    description:
      "address of a machine's port at the gateway: https://{port}-{machine}.{namespace}.sbx.example.com",
    env: ["DASHBOARD_GATEWAY"],
  },
  registry: {
    schema: optionType.optionalText(),
    description:
      "registry of snapshots, host[:port][/prefix], for the registry page and the snapshots of sets",
    env: ["OCI_REGISTRY"],
  },
  registryToken: {
    schema: optionType.optionalText(),
    description: "token for the registry; only used to read",
    env: ["EPOCH_TOKEN"],
    secret: true,
  },
  registryCaCert: {
    schema: optionType.optionalText(),
    description: "file with the registry's certificate authority",
    env: ["EPOCH_CA_CERT"],
  },
  page: {
    schema: optionType.text(""),
    description: "directory of the built page; unset: the one that came with the program",
    env: ["DASHBOARD_PAGE"],
  },
  logLevel: { schema: optionType.logLevel(), description: "log level", env: ["LOG_LEVEL"] },
} as const;

export const dashboardProgram = {
  name: "cocoon-dashboard",
  summary: "web page for sets and machines; acts with the rights of the user who signed in",
  options,
} satisfies Program<typeof options>;

export type DashboardConfig = ConfigOf<typeof options>;
