/** `epoch serve`: a registry from its configuration, with health and metrics beside it. */
import { access } from "node:fs/promises";
import { join } from "node:path";
import {
  aborted,
  readListenAddress,
  startHealthServer,
  writeFileAtomically,
  type Logger,
  type MainContext,
} from "@cocoon/core";
import type { ServeConfig, serveProgram } from "./config.ts";
import { startRegistry, type RunningRegistry } from "./server.ts";
import { readRegistryOptions } from "./settings/registry-options.ts";

export async function serve({
  config,
  log,
  signal,
}: MainContext<typeof serveProgram.options>): Promise<void> {
  await using stack = new AsyncDisposableStack();
  const options = readRegistryOptions(config);
  warnAboutChoices(config, log);
  const registry = await startRegistry({
    ...options,
    ...(await uploadDirectory(config, options.storage.kind)),
    log,
  });
  const health = config.healthAddr === "" ? undefined : stack.use(await startHealth(config, registry));
  if (health) log.info({ url: health.url }, "health and metrics serve");
  stack.use(registry); // health is last down
  const { storage } = options;
  const defaultFile = storage.kind === "filesystem" ? join(storage.root, "admin-token") : undefined;
  await ensureAdministrator(registry, config.adminTokenFile ?? defaultFile, log);
  health?.markReady();
  await aborted(signal);
  health?.markStopping();
}

function startHealth(config: ServeConfig, registry: RunningRegistry) {
  return startHealthServer({
    ...readListenAddress(config.healthAddr, "--health-addr"),
    registry: registry.metrics.registry,
    checks: { storage: () => registry.checkStorage(), listener: () => registry.checkListener() },
  });
}

function warnAboutChoices(config: ServeConfig, log: Logger): void {
  if (config.dsn !== undefined) log.warn("--dsn is not used here: there is no database");
  if (config.epochCompat) log.warn("epoch compatibility: anonymous callers may pull");
}

/** With S3 the default of epoch, if it can be written to. */
async function uploadDirectory(config: ServeConfig, kind: string): Promise<{ uploadDirectory?: string }> {
  if (config.uploadDir !== undefined) return { uploadDirectory: config.uploadDir };
  if (kind !== "s3") return {};
  const directory = "/var/cache/epoch/uploads";
  try {
    await access("/var/cache");
    return { uploadDirectory: directory };
  } catch {
    return {}; // the system's temporary directory, then
  }
}

/** The first start of a closed registry writes an administrator token to a file that only its owner can read. */
async function ensureAdministrator(
  registry: RunningRegistry,
  path: string | undefined,
  log: Logger,
): Promise<void> {
  if (registry.hasTokens()) return;
  if (path === undefined) {
    log.warn("there is no token yet and nowhere to write one; give --admin-token-file");
    return;
  }
  const text = await registry.createToken({ name: "administrator" });
  await writeFileAtomically(path, `${text}\n`, { mode: 0o600 });
  log.info({ path }, "administrator's token written");
}
