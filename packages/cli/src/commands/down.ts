/** down: stops the components, dependants first. The data stays unless `--wipe`. */
import { existsSync } from "node:fs";
import { readdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { markedProcesses, removeStalePortLocks, stopComponents } from "@cocoon/controlplane";
import { abortOnSignals, Fault, toFault } from "@cocoon/core";
import { forgetExternalCluster } from "../external-cluster.ts";
import { homeDirectory, lockPlatform, type HomeOptions } from "../home.ts";
import { removeClusterNetwork } from "../network/remove.ts";
import { partsDirectory } from "../parts/parts.ts";
import { stopMachines } from "../parts/node-machines.ts";
import { knownPlatform } from "../platform.ts";
import type { CommandSpec } from "../command-spec.ts";

export const command: CommandSpec = {
  usage: "down",
  description: "stop everything; the data stays for the next up",
  options: { "--wipe": "also remove the data: the cluster is gone for good" },
  examples: ["cocoonctl down", "cocoonctl down --wipe"],
  run: down,
};

export async function down(options: HomeOptions & { readonly wipe?: boolean }): Promise<void> {
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
  await using _lock = await lockPlatform(directory, signal);
  // A damaged or missing description is no reason to leave processes behind: they carry their mark.
  const platform = await knownPlatform(directory, process.env).catch(() => undefined);
  const running = markedProcesses(directory).length;
  const onProgress = (name: string, text: string) => process.stdout.write(`${name}: ${text}\n`);
  await stopComponents(platform?.components ?? [], { directory, onProgress });
  const path = process.env["PATH"] ?? "";
  await stopMachines({ directory: partsDirectory(directory), path, signal, onProgress });
  await removeClusterNetwork(directory, { signal });
  await forgetExternalCluster(directory);
  process.stdout.write(running === 0 ? "Nothing was running.\n" : "Everything is stopped.\n");
}

/** Written first and removed last: a directory that was removed only in part is still recognised. */
const wipeMarker = ".cocoon-wipe";

/** Removes only a directory that is recognisably ours. May be repeated after a failure. */
async function wipe(directory: string): Promise<void> {
  const ours = [wipeMarker, "cluster.json", "pki", "etcd", "run", "logs"].some((name) =>
    existsSync(join(directory, name)),
  );
  if (!ours)
    throw new Fault(
      "invalid",
      `${directory} does not look like a Cocoon directory; remove it by hand if it is one`,
    );
  await writeFile(join(directory, wipeMarker), "");
  try {
    const names = (await readdir(directory)).filter((name) => name !== wipeMarker);
    await Promise.all(names.map((name) => rm(join(directory, name), { recursive: true, force: true })));
    await rm(directory, { recursive: true, force: true });
  } catch (error) {
    throw toFault(
      error,
      `${directory} was removed only in part; fix the cause and run the same command again`,
    );
  }
  await removeStalePortLocks();
  process.stdout.write(`Removed ${directory}.\n`);
}
