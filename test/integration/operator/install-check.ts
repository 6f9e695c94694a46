/** The operator's manifests, applied, and a connection with nothing but the rights they give. */
import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { openKubeClient, type KubeConnection } from "@cocoon/kube";
import { temporaryDirectory, type TestCluster } from "@cocoon/testkit";
import { parse, stringify } from "yaml";

const root = join(import.meta.dirname, "../../..");

export async function applyManifests(cluster: TestCluster): Promise<void> {
  const steps = [
    ["apply", "--server-side", "-f", join(root, "deploy/crds"), "-f", join(root, "deploy/crd.yaml")],
    ["apply", "--server-side", "-k", join(root, "deploy/operator")],
    ["apply", "--server-side", "-k", join(root, "deploy/operator/legacy")],
  ];
  for (const step of steps) {
    const applied = await cluster.kubectl(step);
    assert.equal(applied.code, 0, applied.stderr);
  }
}

/** As the operator's service account. */
export async function openAsOperator(cluster: TestCluster, signal: AbortSignal): Promise<KubeConnection> {
  const token = await cluster.kubectl(["create", "token", "cocoon-operator", "-n", "cocoon-system"]);
  assert.equal(token.code, 0, token.stderr);
  const config = parse(cluster.kubeconfig) as { users: { user: object }[] };
  const users = config.users.map((each) => ({ ...each, user: { token: token.stdout.trim() } }));
  await using directory = await temporaryDirectory();
  const kubeconfig = join(directory.path, "kubeconfig");
  await writeFile(kubeconfig, stringify({ ...config, users }), { mode: 0o600 });
  return await openKubeClient({ kubeconfig, signal });
}
