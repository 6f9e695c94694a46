/** env: what a shell needs so that `kubectl` means this cluster, as lines for `eval`. */
import { dirname } from "node:path";
import { defaultCacheRoot, resolveBinaries } from "@cocoon/controlplane";
import { abortOnSignals, Fault } from "@cocoon/core";
import { homeDirectory, type HomeOptions } from "../home.ts";
import { knownPlatform } from "../platform.ts";
import { shellWord } from "../shell-words.ts";

export async function env(options: HomeOptions): Promise<void> {
  const directory = homeDirectory(options, process.env);
  const platform = await knownPlatform(directory, process.env);
  if (!platform) throw new Fault("notFound", `no cluster in ${directory}; bring one up with: npm run up`);
  const { kubectl } = await resolveBinaries({
    cacheRoot: defaultCacheRoot(process.env),
    env: process.env,
    signal: abortOnSignals(),
    installAllowed: false,
    onProgress: () => undefined,
  });
  const context = platform.context ? `# use: kubectl --context ${shellWord(platform.context)}\n` : "";
  process.stdout.write(
    `${context}export KUBECONFIG=${shellWord(platform.kubeconfig)}\nexport PATH=${shellWord(dirname(kubectl))}:"$PATH"\n`,
  );
}
