#!/usr/bin/env -S node --max-semi-space-size=2
/** cocoon-operator. Little that it makes lives long: a small young generation keeps its memory small. */
import { enableCompileCache } from "node:module";

// What was compiled once is not compiled again: a replica is up sooner, and needs no compiler in its memory.
enableCompileCache();
const { runMain } = await import("@cocoon/core");
const { operatorProgram } = await import("./config.ts");
const { runOperator } = await import("./run.ts");

await runMain({
  program: operatorProgram,
  logLevel: (config) => config.logLevel,
  run: runOperator,
  givesMemoryBack: true,
});
