/** The options of `epoch serve`: flags, environment variables (epoch's own names are kept) and file keys, one table. */
import * as z from "zod";
import { optionType, tryParseDuration, type ConfigOf, type Program } from "@cocoon/core";
import { tryParseQuantity } from "@cocoon/core/quantity";
import { serviceDefaults } from "./open-services.ts";

/** A number of bytes, as people write it: 512Mi, 40Gi, 1000000. */
const sizeBytes = (fallback: number) =>
  z
    .preprocess(readSize, z.number({ error: "must be a size such as 512Mi or 40Gi" }).nonnegative())
    .default(fallback);

function readSize(value: unknown): unknown {
  if (typeof value !== "string") return value;
  const quantity = tryParseQuantity(value);
  return quantity && Number(quantity.nanos / 1_000_000_000n);
}

const optional = optionType.optionalText;

const options = {
  addr: { schema: optionType.text(":8080"), description: "address to listen on, [host]:port" },
  plainHttp: {
    schema: optionType.bool(false),
    boolean: true,
    description: "serve without TLS on an address that others can reach; on loopback that is always allowed",
  },
  tlsCertFile: { schema: optional(), description: "certificate chain, PEM; read again when it changes" },
  tlsKeyFile: { schema: optional(), description: "private key of the certificate, PEM" },
  healthAddr: {
    schema: optionType.text("127.0.0.1:8081"),
    description: "address for /healthz, /readyz and /metrics; empty for none",
  },
  publicUrl: {
    schema: optional(),
    env: ["EPOCH_PUBLIC_URL"],
    description: "address under which clients reach this server, when it is not the one they name",
  },
  logLevel: {
    schema: optionType.text("info"),
    env: ["EPOCH_LOG_LEVEL"],
    description: "trace, debug, info, warn or error",
  },

  storage: {
    schema: optionType.choice(["auto", "filesystem", "s3", "memory"], "auto"),
    description: "where content is kept; auto means s3 when its settings are there, else filesystem",
  },
  root: {
    schema: optionType.text("/var/lib/epoch"),
    env: ["EPOCH_ROOT"],
    description: "directory of the filesystem storage",
  },
  uploadDir: {
    schema: optional(),
    env: ["EPOCH_UPLOAD_DIR"],
    description:
      "where uploads grow until they are complete; default inside the root, with s3 /var/cache/epoch/uploads",
  },
  s3Endpoint: {
    schema: optional(),
    env: ["EPOCH_S3_ENDPOINT"],
    description: "address of the S3 service, with or without scheme",
  },
  s3AccessKey: { schema: optional(), env: ["EPOCH_S3_ACCESS_KEY"], description: "access key" },
  s3SecretKey: {
    schema: optional(),
    env: ["EPOCH_S3_SECRET_KEY"],
    secret: true,
    description: "secret key; set it in the environment",
  },
  s3Bucket: { schema: optional(), env: ["EPOCH_S3_BUCKET"], description: "bucket" },
  s3Region: { schema: optionType.text("us-east-1"), env: ["EPOCH_S3_REGION"], description: "region" },
  s3Secure: {
    schema: optional(),
    env: ["EPOCH_S3_SECURE"],
    description: "true or false; default by the endpoint's scheme, TLS without one",
  },
  s3Prefix: {
    schema: optionType.text("epoch/"),
    env: ["EPOCH_S3_PREFIX"],
    description: "put before every key",
  },
  s3EnvFile: {
    schema: optional(),
    env: ["EPOCH_S3_ENV_FILE"],
    description:
      "file of EPOCH_S3_…=value lines, read when endpoint, access key or bucket are not set; default ~/.config/epoch/s3.env",
  },
  dsn: { schema: optional(), description: "accepted for compatibility and not used: there is no database" },

  registryToken: {
    schema: optional(),
    env: ["EPOCH_REGISTRY_TOKEN"],
    secret: true,
    description: "token that may push and pull everything and administer nothing; set it in the environment",
  },
  adminTokenFile: {
    schema: optional(),
    description:
      "where the first start writes a token for administration when there is none; default admin-token in the root",
  },
  anonymousPull: {
    schema: optionType.bool(false),
    boolean: true,
    description: "let everybody read /v2/ and /dl/ without a token",
  },
  epochCompat: {
    schema: optionType.bool(false),
    boolean: true,
    description: "behave as epoch does: anonymous pull, tokens echoed by /v2/token, calls from any web page",
  },
  tokenTtl: {
    schema: optionType.durationMs(serviceDefaults.tokenLifetimeMs),
    description: "lifetime of tokens whose maker does not say; 0 for ever",
  },
  corsOrigins: {
    schema: optionType.list(),
    description: "origins of web pages that may call this server, comma separated",
  },

  maxBlobSize: { schema: sizeBytes(serviceDefaults.maxBlobBytes), description: "largest blob" },
  maxManifestSize: { schema: sizeBytes(serviceDefaults.maxManifestBytes), description: "largest manifest" },
  maxConnections: { schema: optionType.integer(4_096, { min: 1 }), description: "connections at a time" },
  rateLimit: { schema: optionType.integer(0), description: "requests per second and caller; 0 for no limit" },
  loginFailures: {
    schema: optionType.integer(serviceDefaults.loginFailuresPerMinute),
    description: "wrong credentials per minute and address before it has to wait; 0 for no limit",
  },
  quota: {
    schema: optionType.text(),
    description: 'limits per repository, first match counts: "vk-*=200Gi; *=50Gi"; empty for none',
  },

  gcInterval: {
    schema: optionType.durationMs(6 * 3_600_000),
    description: "time between garbage collections; 0 for none",
  },
  lease: {
    schema: optionType.durationMs(serviceDefaults.leaseMs),
    description: "how long a blob that no manifest names is kept; longer than the longest push",
  },
  untagged: {
    schema: optionType.durationMs(serviceDefaults.untaggedMs),
    description: "how long a manifest that no tag reaches is kept",
  },
  uploadIdle: {
    schema: optionType.durationMs(serviceDefaults.uploadIdleMs),
    description: "how long an upload that nobody continues is kept; at least an hour",
  },
  retention: {
    schema: optionType.text(),
    description:
      'tags to remove: "<repositories>:<tags> [keep=N] [age=DURATION]; …"; never the tag hibernate',
  },

  ssoProvider: {
    schema: optional(),
    env: ["SSO_PROVIDER"],
    description: "google or oidc; default by which client id is set",
  },
  ssoClientId: {
    schema: optional(),
    env: ["SSO_CLIENT_ID"],
    description: "client id at the OpenID Connect provider",
  },
  ssoClientSecret: {
    schema: optional(),
    env: ["SSO_CLIENT_SECRET"],
    secret: true,
    description: "client secret; set it in the environment",
  },
  ssoRedirectUri: {
    schema: optional(),
    env: ["SSO_REDIRECT_URI"],
    description: "this server's /login/callback as the provider knows it",
  },
  ssoAuthorizeUrl: {
    schema: optional(),
    env: ["SSO_AUTHORIZE_URL"],
    description: "the provider's authorization endpoint",
  },
  ssoTokenUrl: { schema: optional(), env: ["SSO_TOKEN_URL"], description: "the provider's token endpoint" },
  ssoUserinfoUrl: {
    schema: optional(),
    env: ["SSO_USERINFO_URL"],
    description: "the provider's userinfo endpoint",
  },
  ssoLogoutUrl: { schema: optional(), env: ["SSO_LOGOUT_URL"], description: "where to go after a logout" },
  ssoScopes: {
    schema: optionType.text("openid profile email"),
    env: ["SSO_SCOPES"],
    description: "scopes to ask for",
  },
  ssoCookieSecret: {
    schema: optional(),
    env: ["SSO_COOKIE_SECRET"],
    secret: true,
    description: "hex key of session cookies; default one that is kept with the content",
  },
  googleClientId: { schema: optional(), env: ["GOOGLE_OAUTH_CLIENT_ID"], description: "client id at Google" },
  googleClientSecret: {
    schema: optional(),
    env: ["GOOGLE_OAUTH_CLIENT_SECRET"],
    secret: true,
    description: "client secret at Google",
  },
  googleRedirectUri: {
    schema: optional(),
    env: ["GOOGLE_OAUTH_REDIRECT_URI"],
    description: "this server's /login/callback as Google knows it",
  },
  googleHostedDomain: {
    schema: optionType.list(),
    env: ["GOOGLE_OAUTH_HOSTED_DOMAIN"],
    description: "domains whose people may log in, comma separated; empty for all",
  },
} as const;

export type ServeConfig = ConfigOf<typeof options>;

export const serveProgram: Program<typeof options> = {
  name: "epoch",
  summary: "OCI registry for VM snapshots and other artefacts (epoch serve)",
  options,
};

/** Durations below which waiting for a slow client would be cut. */
export const minUploadIdleMs = tryParseDuration("1h") ?? 0;
