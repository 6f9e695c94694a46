#!/usr/bin/env node
/** epoch: the registry's executable. `epoch serve [flags]`. */
import { runMain } from "@cocoon/core";
import { serveProgram } from "./config.ts";
import { serve } from "./serve.ts";

const [command, ...rest] = process.argv.slice(2);
await runMain({
  program: serveProgram,
  logLevel: (config) => config.logLevel,
  run: serve,
  argv: command === "serve" ? rest : process.argv.slice(2),
});
