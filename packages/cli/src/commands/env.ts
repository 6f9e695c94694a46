/** env: what a shell needs so that `kubectl` means this cluster, as lines for `eval`. */
import { dirname } from "node:path";
import { abortOnSignals } from "@cocoon/core";
import type { CommandSpec } from "../command-spec.ts";
import type { HomeOptions } from "../home.ts";
import { findKubectl, requirePlatform } from "../platform.ts";
import { shellWord } from "../shell-words.ts";

export const command: CommandSpec = {
  usage: "env",
  description: "lines for eval: this shell's kubectl is then the cluster's",
  examples: ['eval "$(cocoonctl env)"'],
  run: env,
};

async function env(options: HomeOptions): Promise<void> {
  const { kubeconfig, context } = await requirePlatform(options);
  const kubectl = await findKubectl(abortOnSignals());
  const hint = context ? `# use: kubectl --context ${shellWord(context)}\n` : "";
  process.stdout.write(
    `${hint}export KUBECONFIG=${shellWord(kubeconfig)}\nexport PATH=${shellWord(dirname(kubectl))}:"$PATH"\n`,
  );
}
