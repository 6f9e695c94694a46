/** The options of `epoch serve`: flags, environment variables (epoch's own names are kept) and file keys, one table. */
import * as z from "zod";
import { optionType, type ConfigOf, type Program } from "@cocoon/core";
import { tryParseQuantity } from "@cocoon/core/quantity";
import { maintenanceDefaults } from "./maintenance.ts";
import { defaultLimits, serviceDefaults } from "./open-services.ts";

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
const plain = <S extends z.ZodType>(schema: S, description: string, env?: string) => ({
  schema,
  description,
  ...(env ? { env: [env] } : {}),
});
const flag = (description: string) => ({ ...plain(optionType.bool(false), description), boolean: true });
const text = (env: string, description: string) => plain(optional(), description, env);
const secretText = (env: string, description: string) => ({ ...text(env, description), secret: true });

const options = {
  addr: plain(optionType.text(":8080"), "address to listen on, [host]:port"),
  plainHttp: flag(
    "serve without TLS on an address that others can reach; on loopback that is always allowed",
  ),
  tlsCertFile: plain(optional(), "certificate chain, PEM; read again when it changes"),
  tlsKeyFile: plain(optional(), "private key of the certificate, PEM"),
  healthAddr: plain(
    optionType.text("127.0.0.1:8081"),
    "address for /healthz, /readyz and /metrics; empty for none",
  ),
  publicUrl: text(
    "EPOCH_PUBLIC_URL",
    "address under which clients reach this server, when it is not the one they name",
  ),
  logLevel: plain(optionType.text("info"), "trace, debug, info, warn or error", "EPOCH_LOG_LEVEL"),

  storage: plain(
    optionType.choice(["auto", "filesystem", "s3"], "auto"),
    "where content is kept; auto means s3 when its settings are there, else filesystem",
  ),
  root: plain(optionType.text("/var/lib/epoch"), "directory of the filesystem storage", "EPOCH_ROOT"),
  uploadDir: text(
    "EPOCH_UPLOAD_DIR",
    "where uploads grow until they are complete; default inside the root, with s3 /var/cache/epoch/uploads",
  ),
  s3Endpoint: text("EPOCH_S3_ENDPOINT", "address of the S3 service, with or without scheme"),
  s3AccessKey: text("EPOCH_S3_ACCESS_KEY", "access key"),
  s3SecretKey: secretText("EPOCH_S3_SECRET_KEY", "secret key; set it in the environment"),
  s3Bucket: text("EPOCH_S3_BUCKET", "bucket"),
  s3Region: plain(optionType.text("us-east-1"), "region", "EPOCH_S3_REGION"),
  s3Secure: text("EPOCH_S3_SECURE", "true or false; default by the endpoint's scheme, TLS without one"),
  s3Prefix: plain(optionType.text("epoch/"), "put before every key", "EPOCH_S3_PREFIX"),
  s3EnvFile: text(
    "EPOCH_S3_ENV_FILE",
    "file of EPOCH_S3_…=value lines, read when endpoint, access key or bucket are not set; default ~/.config/epoch/s3.env",
  ),
  dsn: plain(optional(), "accepted for compatibility and not used: there is no database"),

  registryToken: secretText(
    "EPOCH_REGISTRY_TOKEN",
    "token that may push and pull everything and administer nothing; set it in the environment",
  ),
  adminTokenFile: plain(
    optional(),
    "where the first start writes a token for administration when there is none; default admin-token in the root",
  ),
  anonymousPull: flag("let anonymous callers read /v2/ and /dl/"),
  epochCompat: flag(
    "behave as epoch does: anonymous pull, tokens echoed by /v2/token, calls from any web page",
  ),
  tokenTtl: plain(
    optionType.durationMs(serviceDefaults.tokenLifetimeMs),
    "lifetime of tokens whose maker does not say; 0 for ever",
  ),
  corsOrigins: plain(optionType.list(), "origins of web pages that may call this server, comma separated"),

  maxBlobSize: plain(sizeBytes(defaultLimits.maxBlobBytes), "largest blob"),
  maxManifestSize: plain(sizeBytes(defaultLimits.maxManifestBytes), "largest manifest, at most 50Mi"),
  maxConnections: plain(optionType.integer(4_096, { min: 1 }), "connections at a time"),
  maxConnectionsPerAddress: plain(
    optionType.integer(1_024, { min: 1 }),
    "connections of one address at a time; trusted proxies have no limit",
  ),
  maxUploadsPerCaller: plain(
    optionType.integer(serviceDefaults.maxUploadsPerCaller, { min: 1 }),
    "open uploads of one token at a time; above it the oldest idle one is cancelled",
  ),
  stallTimeout: plain(
    optionType.durationMs(serviceDefaults.stallTimeoutMs),
    "how long a body or answer of a known caller may not move; anonymous ones have a minute",
  ),
  trustedProxies: plain(
    optionType.list(),
    "addresses and networks of proxies whose X-Forwarded-For names the client, comma separated",
  ),
  rateLimit: plain(optionType.integer(0), "requests per second and caller; 0 for no limit"),
  loginFailures: plain(
    optionType.integer(serviceDefaults.loginFailuresPerMinute),
    "wrong credentials per minute and address before it has to wait; 0 for no limit",
  ),
  quota: plain(
    optionType.text(),
    'limits per repository, first match counts: "vk-*=200Gi; *=50Gi"; empty for none',
  ),

  gcInterval: plain(
    optionType.durationMs(maintenanceDefaults.gcIntervalMs),
    "time between garbage collections; 0 for none",
  ),
  scrubInterval: plain(
    optionType.durationMs(maintenanceDefaults.scrubIntervalMs),
    "time between checks of all content against its digests; 0 for none",
  ),
  scrubRate: plain(
    sizeBytes(maintenanceDefaults.scrubBytesPerSecond),
    "bytes per second that such a check reads; 0 for as fast as possible",
  ),
  lease: plain(
    optionType.durationMs(serviceDefaults.leaseMs),
    "how long a blob that no manifest names is kept; longer than the longest push",
  ),
  untagged: plain(
    optionType.durationMs(serviceDefaults.untaggedMs),
    "how long a manifest that no tag reaches is kept",
  ),
  uploadIdle: plain(
    optionType.durationMs(serviceDefaults.uploadIdleMs),
    "how long an upload that receives no data is kept; at least a minute",
  ),
  retention: plain(
    optionType.text(),
    'tags to remove: "<repositories>:<tags> [keep=N] [age=DURATION]; …"; never the tags of a hibernated machine',
  ),

  ssoProvider: text("SSO_PROVIDER", "google or oidc; default by which client id is set"),
  ssoClientId: text("SSO_CLIENT_ID", "client id at the OpenID Connect provider"),
  ssoClientSecret: secretText("SSO_CLIENT_SECRET", "client secret; set it in the environment"),
  ssoRedirectUri: text("SSO_REDIRECT_URI", "this server's /login/callback as the provider knows it"),
  ssoAuthorizeUrl: text("SSO_AUTHORIZE_URL", "the provider's authorization endpoint"),
  ssoTokenUrl: text("SSO_TOKEN_URL", "the provider's token endpoint"),
  ssoUserinfoUrl: text("SSO_USERINFO_URL", "the provider's userinfo endpoint"),
  ssoLogoutUrl: text("SSO_LOGOUT_URL", "where to go after a logout"),
  ssoScopes: plain(optionType.text("openid profile email"), "scopes to ask for", "SSO_SCOPES"),
  ssoCookieSecret: secretText(
    "SSO_COOKIE_SECRET",
    "hex key of session cookies; default one that is kept with the content",
  ),
  googleClientId: text("GOOGLE_OAUTH_CLIENT_ID", "client id at Google"),
  googleClientSecret: secretText("GOOGLE_OAUTH_CLIENT_SECRET", "client secret at Google"),
  googleRedirectUri: text("GOOGLE_OAUTH_REDIRECT_URI", "this server's /login/callback as Google knows it"),
  googleHostedDomain: plain(
    optionType.list(),
    "domains whose people may log in, comma separated; empty for all",
    "GOOGLE_OAUTH_HOSTED_DOMAIN",
  ),
} as const;

export type ServeConfig = ConfigOf<typeof options>;

export const serveProgram: Program<typeof options> = {
  name: "epoch",
  summary: "OCI registry for VM snapshots and other artefacts (epoch serve)",
  options,
};

/** A shorter time would end uploads between two requests of a client. */
export const minUploadIdleMs = 60_000;
export const maxManifestLimitBytes = 50 * 2 ** 20;
