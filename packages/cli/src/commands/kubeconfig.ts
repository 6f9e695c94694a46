/** kubeconfig: the administrator's access to this machine's cluster. */
import { readFile } from "node:fs/promises";
import { Fault } from "@cocoon/core";
import { homeDirectory, type HomeOptions } from "../home.ts";
import { knownPlatform } from "../platform.ts";

export interface KubeconfigOptions extends HomeOptions {
  readonly path?: boolean;
}

export async function kubeconfig(options: KubeconfigOptions): Promise<void> {
  const directory = homeDirectory(options, process.env);
  const platform = await knownPlatform(directory, process.env);
  if (!platform) throw new Fault("notFound", `no cluster in ${directory}; bring one up with: npm run up`);
  const path = platform.kubeconfig;
  process.stdout.write(options.path ? `${path}\n` : await readFile(path, "utf8"));
}
