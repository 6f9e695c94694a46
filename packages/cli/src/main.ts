#!/usr/bin/env node
/** cocoonctl: brings the platform up on one machine and speaks to it. Also runs as `kubectl cocoon`. */
import { versionText } from "@cocoon/core/version";
import { Command } from "commander";
import { addCommands } from "./commands/index.ts";
import { runCli } from "./run-cli.ts";

const program = new Command("cocoonctl")
  .description("MicroVMs as Kubernetes pods: bring the platform up, look at it, take it down")
  .version(versionText("cocoonctl").trim(), "--version", "version, revision and build time")
  .option("--dir <path>", "where the cluster of this machine lives (env COCOON_HOME)")
  .showHelpAfterError("(--help shows what there is)")
  .configureHelp({ showGlobalOptions: true });
addCommands(program);
await runCli(program);
