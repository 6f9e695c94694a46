#!/usr/bin/env -S node --max-semi-space-size=2
/** cocoon-page-server: started by the engine for each machine that runs before its memory and disks are here. */
import { readFileSync } from "node:fs";
import { enableCompileCache } from "node:module";

enableCompileCache();
const { versionText } = await import("@cocoon/core");
const name = "cocoon-page-server";
const [flag, argument = ""] = process.argv.slice(2);
if (flag === "--version") process.stdout.write(versionText(name));
else if (flag === "--local") {
  const { localFilesSchema } = await import("./page-server-config.ts");
  const { serveLocal } = await import("./serve-local.ts");
  await serveLocal(localFilesSchema.parse(JSON.parse(argument)), { resend: true });
  process.exit(0);
} else if (flag !== undefined)
  process.stdout.write(`Usage: ${name} 0<>MOUNT 3<SETTINGS; started by vk-cocoon\n`);
else {
  const { pageServerSchema } = await import("./page-server-config.ts");
  const { runPageServer } = await import("./run-page-server.ts");
  const { settingsDescriptor } = await import("./serve-local.ts");
  await runPageServer(pageServerSchema.parse(JSON.parse(readFileSync(settingsDescriptor, "utf8"))));
  process.exit(0); // reads of the mount may still block threads
}
