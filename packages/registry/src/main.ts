#!/usr/bin/env node
/** epoch: a registry (`epoch serve`) and the commands of its client. Each half is loaded only when it is called. */
import { abortOnSignals, runMain, systemCode } from "@cocoon/core";

const [command, ...rest] = process.argv.slice(2);
if (command === "serve") {
  const { serveProgram } = await import("./config.ts");
  const { serve } = await import("./serve.ts");
  await runMain({
    program: serveProgram,
    logLevel: (config) => config.logLevel,
    run: serve,
    argv: rest,
  });
} else {
  const { runClient } = await import("./cli/run.ts");
  // The reader of a pipe may end first (`epoch inspect … | head`): that is no error.
  process.stdout.on("error", (error) => {
    if (systemCode(error) !== "EPIPE") throw error;
  });
  const signal = abortOnSignals();
  process.exitCode = await runClient(process.argv.slice(2), { env: process.env, streams: process, signal });
}
