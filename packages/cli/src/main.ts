/**
 * cocoonctl: brings the platform up on one machine and speaks to it, or to any cluster. Installed as `kubectl-cocoon` it is
 * `kubectl cocoon`. Started by bin/cocoonctl.mjs; what is not needed for the command that was typed is not loaded.
 */
import { commandName } from "./invocation.ts";

// The reader of a pipe may end first (`cocoonctl get | head`): that is no error.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code !== "EPIPE") throw error;
});

const name = commandName();
if (process.argv.length === 3 && process.argv[2] === "--version") {
  const { versionText } = await import("@cocoon/core/version");
  process.stdout.write(versionText(name));
} else if (process.argv[2] === "relay-worker") {
  // One runs in each namespace of a platform: none of them needs the commands in memory.
  const { runWorker } = await import("./network/relay-worker.ts");
  await runWorker();
} else {
  const { buildProgram } = await import("./program.ts");
  const { runCli } = await import("./run-cli.ts");
  await runCli(await buildProgram(name, process.argv.slice(2)));
}
