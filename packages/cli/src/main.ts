#!/usr/bin/env node
/**
 * cocoonctl: brings the platform up on one machine and speaks to it, or to any cluster. Installed as `kubectl-cocoon` it is
 * `kubectl cocoon`. Compiled code is kept between runs, so everything else is loaded after that was switched on.
 */
import { enableCompileCache } from "node:module";
import { homedir } from "node:os";
import { join } from "node:path";

// A directory of the user's own: what is in it is run.
const cache =
  process.env["COCOON_CACHE"] ?? join(process.env["XDG_CACHE_HOME"] ?? join(homedir(), ".cache"), "cocoon");
enableCompileCache(join(cache, "compiled"));
const { commandName } = await import("./invocation.ts");
const name = commandName();
if (process.argv.length === 3 && process.argv[2] === "--version") {
  const { versionText } = await import("@cocoon/core/version");
  process.stdout.write(versionText(name));
} else {
  const { buildProgram } = await import("./program.ts");
  const { runCli } = await import("./run-cli.ts");
  await runCli(buildProgram(name));
}
