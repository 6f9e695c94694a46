/** kubectl: the one that matches the cluster, with its kubeconfig; takes our place. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { defaultCacheRoot, resolveBinaries } from "@cocoon/controlplane";
import { abortOnSignals, Fault } from "@cocoon/core";
import { homeDirectory, type HomeOptions } from "../home.ts";
import { knownPlatform } from "../platform.ts";
import { Quit } from "../run-cli.ts";

export async function kubectl(args: readonly string[], options: HomeOptions): Promise<void> {
  const directory = homeDirectory(options, process.env);
  const platform = await knownPlatform(directory, process.env);
  if (!platform) throw new Fault("notFound", `no cluster in ${directory}; bring one up with: npm run up`);
  const binaries = await resolveBinaries({
    cacheRoot: defaultCacheRoot(process.env),
    env: process.env,
    signal: abortOnSignals(),
    installAllowed: false,
    onProgress: () => undefined,
  });
  const context = platform.context ? ["--context", platform.context] : [];
  const child = spawn(binaries.kubectl, [...context, ...args], {
    stdio: "inherit",
    env: { ...process.env, KUBECONFIG: platform.kubeconfig },
  });
  const [code] = (await once(child, "close")) as [number | null];
  throw new Quit(code ?? 1);
}
