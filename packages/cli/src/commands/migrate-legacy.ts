/** migrate-legacy: objects of cocoon.cis/v1alpha1 become current ones; their machines go on undisturbed. */
import { migrateLegacy as migrate } from "@cocoon/operator";
import { openSession, type ClusterOptions } from "../cluster/session.ts";
import { clusterOptions, type CommandSpec } from "../command-spec.ts";

export const command: CommandSpec = {
  usage: "migrate-legacy",
  description: "turn objects of cocoon.cis/v1alpha1 into current ones; their machines go on",
  options: { "--dry-run": "print what would be done, do nothing", ...clusterOptions },
  examples: ["cocoonctl migrate-legacy --dry-run", "cocoonctl migrate-legacy -n team"],
  run: migrateLegacy,
};

async function migrateLegacy(options: ClusterOptions & { readonly dryRun?: boolean }): Promise<void> {
  const { dryRun = false, namespace } = options;
  await using session = await openSession(options);
  const { client, signal } = session;
  const lines = await migrate({ client, signal, dryRun, ...(namespace ? { namespace } : {}) });
  process.stdout.write(`${lines.join("\n") || "nothing of the older API is left"}\n`);
}
