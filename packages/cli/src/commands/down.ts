/** down: stops the components, dependants first. The data stays unless `--wipe`. */
import { existsSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { markedProcesses, stopComponents } from "@cocoon/controlplane";
import { abortOnSignals, Fault, lockFile } from "@cocoon/core";
import { forgetExternalCluster } from "../external-cluster.ts";
import { homeDirectory, type HomeOptions } from "../home.ts";
import { partsDirectory } from "../parts/parts.ts";
import { stopMachines } from "../parts/stop-machines.ts";
import { knownPlatform } from "../platform.ts";

export interface DownOptions extends HomeOptions {
  readonly wipe?: boolean;
}

export async function down(options: DownOptions): Promise<void> {
  const directory = homeDirectory(options, process.env);
  if (!existsSync(directory) && markedProcesses(directory).length === 0) {
    process.stdout.write(`Nothing to stop: ${directory} does not exist.\n`);
    return;
  }
  await stopAll(directory);
  if (options.wipe) await wipe(directory);
  else
    process.stdout.write(
      `The data stays in ${directory}; \`up\` goes on with it, \`down --wipe\` removes it.\n`,
    );
}

async function stopAll(directory: string): Promise<void> {
  const signal = abortOnSignals();
  await using _lock = await lockFile(join(directory, "lock"), {
    signal,
    onWait: (holder) =>
      process.stderr.write(`Process ${holder.pid} is working on this cluster; waiting for it.\n`),
  });
  // A damaged or missing description is no reason to leave processes behind: they carry their mark.
  const platform = await knownPlatform(directory, process.env).catch(() => undefined);
  const running = markedProcesses(directory).length;
  const onProgress = (name: string, text: string) => process.stdout.write(`${name}: ${text}\n`);
  await stopComponents(platform?.components ?? [], { directory, onProgress });
  const path = process.env["PATH"] ?? "";
  await stopMachines({ directory: partsDirectory(directory), path, signal, onProgress });
  await forgetExternalCluster(directory);
  process.stdout.write(running === 0 ? "Nothing was running.\n" : "Everything is stopped.\n");
}

/** Removes only a directory that is recognisably ours. */
async function wipe(directory: string): Promise<void> {
  const ours = ["cluster.json", "pki", "etcd", "run", "logs"].some((name) =>
    existsSync(join(directory, name)),
  );
  if (!ours)
    throw new Fault(
      "invalid",
      `${directory} does not look like a Cocoon directory; remove it by hand if it is one`,
    );
  await rm(directory, { recursive: true, force: true });
  process.stdout.write(`Removed ${directory}.\n`);
}
