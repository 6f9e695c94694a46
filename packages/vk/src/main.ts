#!/usr/bin/env node
/** vk-cocoon: one process per VM host. */
import { runMain } from "@cocoon/core";
import { vkProgram } from "./config.ts";
import { runVk } from "./run.ts";

await runMain({ program: vkProgram, logLevel: (config) => config.logLevel, run: runVk });
