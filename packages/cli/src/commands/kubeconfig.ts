/** kubeconfig: the administrator's access to this machine's cluster. */
import { readFile } from "node:fs/promises";
import type { CommandSpec } from "../command-spec.ts";
import type { HomeOptions } from "../home.ts";
import { requirePlatform } from "../platform.ts";

export const command: CommandSpec = {
  usage: "kubeconfig",
  description: "print the kubeconfig of this machine's cluster",
  options: { "--path": "print where the file is instead" },
  examples: ['export KUBECONFIG="$(cocoonctl kubeconfig --path)"', "cocoonctl kubeconfig > ~/.kube/cocoon"],
  run: kubeconfig,
};

async function kubeconfig(options: HomeOptions & { readonly path?: boolean }): Promise<void> {
  const { kubeconfig: path } = await requirePlatform(options);
  process.stdout.write(options.path ? `${path}\n` : await readFile(path, "utf8"));
}
