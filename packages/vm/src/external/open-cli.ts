/** Opens the driver of an external `cocoon`: whether sudo is needed, and what the command can do. */
import { silentLogger, type Abortable, type Logger } from "@cocoon/core";
import { openLeaseFinder } from "../leases/leases.ts";
import type { VmRuntime } from "../runtime.ts";
import { CliRuntime } from "./cli-runtime.ts";
import { detectVintage } from "./vintage.ts";

export interface CliOptions extends Abortable {
  /** The command, with leading arguments if it has any. Default `/usr/local/bin/cocoon`. */
  readonly command?: readonly string[];
  /** `auto`: `sudo -n` when we are not root. */
  readonly sudo?: "auto" | "never";
  readonly rootDirectory?: string;
  /** Files in which addresses are found that the engine does not learn; the first that knows one counts. */
  readonly leasesPaths?: readonly string[];
  /** What the command sees; sudo keeps little of it. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly log?: Logger;
}

const defaultRoot = "/var/lib/cocoon";

/** `unavailable` when there is no such command, `forbidden` when sudo requires a password. */
export async function openCliRuntime(options: CliOptions): Promise<VmRuntime> {
  const { command = ["/usr/local/bin/cocoon"], rootDirectory = defaultRoot } = options;
  const needsSudo = (options.sudo ?? "auto") === "auto" && process.getuid?.() !== 0;
  const cocoon = { argv: needsSudo ? ["sudo", "-n", ...command] : command, env: options.env };
  const vintage = await detectVintage(cocoon, options);
  const log = options.log ?? silentLogger;
  log.info({ cocoon: vintage.name, version: vintage.version }, "found cocoon");
  const paths = options.leasesPaths ?? [`${rootDirectory}/net/leases.json`];
  return new CliRuntime({
    command: cocoon,
    vintage,
    log,
    rootDirectory,
    findLease: openLeaseFinder(paths),
  });
}
