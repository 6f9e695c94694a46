#!/usr/bin/env -S node --max-semi-space-size=2
/** cocoon-page-server: started by the engine for each machine that runs before its memory and disks are here. */
import { readFileSync } from "node:fs";
import { enableCompileCache } from "node:module";

enableCompileCache();
const { versionText } = await import("@cocoon/core");
const name = "cocoon-page-server";
const [flag] = process.argv.slice(2);
if (flag === "--version") process.stdout.write(versionText(name));
else if (flag !== undefined)
  process.stdout.write(`Usage: ${name} < SETTINGS; started by vk-cocoon, with descriptor 3 of the mount\n`);
else {
  const { pageServerSchema } = await import("./page-server-config.ts");
  const { runPageServer } = await import("./run-page-server.ts");
  await runPageServer(pageServerSchema.parse(JSON.parse(readFileSync(0, "utf8"))));
  process.exit(0); // reads of the mount may still block threads
}
