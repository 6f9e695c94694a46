/** A cluster that exists elsewhere: remembered by kubeconfig and context, contacted before it is used. */
import { rm } from "node:fs/promises";
import { join, resolve } from "node:path";
import { toFault, tryReadJson, writeFileAtomically } from "@cocoon/core";
import { openKubeClient } from "@cocoon/kube";
import * as z from "zod";

const externalSchema = z.object({
  server: z.string(),
  kubeconfig: z.string(),
  context: z.string().optional(),
});
export type ExternalCluster = Readonly<z.infer<typeof externalSchema>>;

export interface ClusterChoice {
  readonly kubeconfig?: string | undefined;
  readonly context?: string | undefined;
}

function recordPath(directory: string): string {
  return join(directory, "external-cluster.json");
}

export async function readExternalCluster(directory: string): Promise<ExternalCluster | undefined> {
  return tryReadJson(recordPath(directory), externalSchema, "remove that one file");
}

export async function writeExternalCluster(directory: string, cluster: ExternalCluster): Promise<void> {
  await writeFileAtomically(recordPath(directory), `${JSON.stringify(cluster, null, 2)}\n`, { mode: 0o600 });
}

export async function forgetExternalCluster(directory: string): Promise<void> {
  await rm(recordPath(directory), { force: true });
}

const versionSchema = z.object({ gitVersion: z.string() });

/** Opens the cluster and reads its version; a mistake in the kubeconfig or on the way is one clear error. */
export async function askCluster(
  choice: ClusterChoice,
  signal: AbortSignal,
): Promise<ExternalCluster & { readonly version: string }> {
  await using client = await openKubeClient({ ...choice, signal });
  const { server, context } = client.target;
  try {
    const { gitVersion } = versionSchema.parse(
      await client.raw({ method: "GET", path: "/version", signal, timeoutMs: 10_000 }),
    );
    const kubeconfig = resolve(
      choice.kubeconfig ?? process.env["KUBECONFIG"] ?? join(process.env["HOME"] ?? "", ".kube", "config"),
    );
    return { server, kubeconfig, context, version: gitVersion };
  } catch (error) {
    throw toFault(error, `cannot use the cluster at ${server}`);
  }
}
