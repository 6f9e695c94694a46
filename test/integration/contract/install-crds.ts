/** Installs the generated CRDs of deploy/ and waits until the API server serves them. */
import assert from "node:assert/strict";
import { join } from "node:path";
import type { TestCluster } from "@cocoon/testkit";

const root = join(import.meta.dirname, "../../..");

export async function installCrds(
  cluster: TestCluster,
  paths: readonly string[] = ["deploy/crds"],
): Promise<void> {
  const files = paths.map((path) => `--filename=${join(root, path)}`);
  const applied = await cluster.kubectl(["apply", "--server-side", "--force-conflicts", ...files]);
  assert.equal(applied.code, 0, applied.stderr);
  const established = await cluster.kubectl([
    "wait",
    "--for=condition=Established",
    "--timeout=60s",
    ...files,
  ]);
  assert.equal(established.code, 0, established.stderr);
}
