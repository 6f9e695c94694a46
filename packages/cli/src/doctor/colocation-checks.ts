/** The checks of the colocation webhooks, when they run on this machine. */
import { checkColocation } from "@cocoon/colocation";
import { findRunning } from "@cocoon/controlplane";
import { openKubeClient } from "@cocoon/kube";
import { knownPlatform } from "../platform.ts";
import type { CheckContext, CheckResult } from "./check.ts";

export async function colocationChecks({
  directory,
  env,
  signal,
}: CheckContext): Promise<readonly (CheckResult & { readonly name: string })[]> {
  const platform = await knownPlatform(directory, env).catch(() => undefined); // told by another check
  if (!platform || !(await findRunning(directory, "colocation"))) return [];
  await using client = await openKubeClient({ signal, kubeconfig: platform.kubeconfig });
  return await checkColocation({ client, namespace: "cocoon-colocation", signal });
}
