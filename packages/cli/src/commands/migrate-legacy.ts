/** migrate-legacy: objects of cocoon.cis/v1alpha1 become current ones; their machines go on undisturbed. */
import { abortOnSignals } from "@cocoon/core";
import { openKubeClient } from "@cocoon/kube";
import { migrateLegacy as migrate } from "@cocoon/operator";
import { homeDirectory, type HomeOptions } from "../home.ts";
import { knownPlatform } from "../platform.ts";

export interface MigrateLegacyOptions extends HomeOptions {
  readonly namespace?: string;
  readonly dryRun?: boolean;
  readonly kubeconfig?: string;
  readonly context?: string;
}

export async function migrateLegacy(options: MigrateLegacyOptions): Promise<void> {
  const signal = abortOnSignals();
  const platform = options.kubeconfig
    ? undefined
    : await knownPlatform(homeDirectory(options, process.env), process.env);
  const kubeconfig = options.kubeconfig ?? platform?.kubeconfig;
  const context = options.context ?? platform?.context;
  await using client = await openKubeClient({
    signal,
    ...(kubeconfig ? { kubeconfig } : {}),
    ...(context ? { context } : {}),
  });
  const lines = await migrate({
    client,
    signal,
    dryRun: options.dryRun ?? false,
    ...(options.namespace ? { namespace: options.namespace } : {}),
  });
  const said = lines.length === 0 ? ["nothing of the older API is left"] : lines;
  process.stdout.write(`${said.join("\n")}\n`);
}
