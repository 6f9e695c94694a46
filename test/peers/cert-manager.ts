/** cert-manager's custom resources, from its Go module: what our manifests for it are checked against. */
import assert from "node:assert/strict";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { runCommand } from "@cocoon/testkit";

const module = "github.com/cert-manager/cert-manager";

/** Files of its definitions, in the module cache; go.sum beside this file says which content is right. */
export async function certManagerDefinitions(): Promise<string[]> {
  const found = await runCommand("go", ["mod", "download", "-json", module], {
    cwd: join(import.meta.dirname, "cert-manager"),
    env: { GOFLAGS: "-mod=readonly" },
    timeoutMs: 5 * 60_000,
  });
  assert.equal(found.code, 0, found.stderr || found.stdout);
  const { Dir: directory } = JSON.parse(found.stdout) as { readonly Dir: string };
  const crds = join(directory, "deploy/crds");
  return (await readdir(crds)).filter((name) => name.endsWith(".yaml")).map((name) => join(crds, name));
}
