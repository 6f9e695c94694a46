#!/usr/bin/env -S node --max-semi-space-size=2
/** vk-cocoon: one process per VM host. Little that it makes lives long: a small young generation keeps its memory small. */
import { enableCompileCache } from "node:module";

// What was compiled once is not compiled again: a kubelet that was killed is back sooner, and needs no compiler.
enableCompileCache();
const { runMain } = await import("@cocoon/core");
const { vkProgram } = await import("./config.ts");
const { runVk } = await import("./run.ts");

await runMain({ program: vkProgram, logLevel: (config) => config.logLevel, run: runVk });
