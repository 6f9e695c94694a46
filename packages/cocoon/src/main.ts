#!/usr/bin/env node
/** cocoon: the MicroVM engine as one command, over QEMU. A drop-in for clients that spawn the command of that name. */
import { enableCompileCache } from "node:module";

// The command is started for everything, so it must start fast: what was compiled once is not compiled again.
enableCompileCache();
const { abortOnSignals } = await import("@cocoon/core");
const { runCocoon } = await import("./program.ts");

const code = await runCocoon(process.argv.slice(2), {
  stdout: process.stdout,
  stderr: process.stderr,
  stdin: process.stdin,
  env: process.env,
  signal: abortOnSignals(),
});
// A leftover timer or socket must not keep a finished command alive, and buffered output must not be lost.
process.stdout.write("", () => process.exit(code));
