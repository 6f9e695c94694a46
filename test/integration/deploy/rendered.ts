/** What the documented installations consist of, as the tools that people use render them. */
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { runCommand, testBinaries } from "@cocoon/testkit";
import { parseAllDocuments } from "yaml";
import { identityOf, readManifests, type Manifest } from "../../../scripts/generate/kustomize.ts";
import { buildHelm } from "../../peers/helm.ts";

export const root = join(import.meta.dirname, "../../..");

/** Every directory that `kubectl apply -k` may be given. */
export const kustomizeRoots = [
  "config/default",
  "config/default/operator",
  "config/default/webhook",
  "config/default/colocation",
  "config/default/vk",
  "config/default/registry",
  "config/cert-manager",
  "config/legacy",
  "config/example",
  "deploy/operator",
  "deploy/operator/legacy",
  "deploy/webhook/overlays/built-in-certificates",
  "deploy/webhook/overlays/cert-manager",
  "deploy/registry/overlays/plain-http",
  "deploy/registry/overlays/cert-manager",
  "deploy/colocation",
  "deploy/colocation-cert-manager",
] as const;

export function read(text: string): Manifest[] {
  return parseAllDocuments(text)
    .map((document) => document.toJS() as unknown)
    .filter((object): object is Manifest => object !== null && object !== undefined);
}

export async function kustomize(directory: string): Promise<Manifest[]> {
  const { kubectl } = await testBinaries();
  const built = await runCommand(kubectl, ["kustomize", join(root, directory)]);
  assert.equal(built.code, 0, built.stderr);
  return read(built.stdout);
}

/** Keys of an object in one order, so that texts can be compared. */
export function canonical(value: unknown): string {
  return JSON.stringify(value, (_key, inner: unknown) =>
    typeof inner === "object" && inner !== null && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).toSorted(([a], [b]) => (a < b ? -1 : 1)))
      : inner,
  );
}

export function byIdentity(objects: readonly Manifest[]): Map<string, string> {
  return new Map(
    objects
      .toSorted((a, b) => (identityOf(a) < identityOf(b) ? -1 : 1))
      .map((object) => [identityOf(object), canonical(object)]),
  );
}

export function file(path: string): Manifest[] {
  return readManifests(join(root, path));
}

export function samples(): { readonly name: string; readonly objects: Manifest[] }[] {
  return readdirSync(join(root, "deploy/samples")).map((name) => ({
    name,
    objects: file(`deploy/samples/${name}`),
  }));
}

export function version(): string {
  return (JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { version: string }).version;
}

export async function helmTemplate(...args: readonly string[]): Promise<Manifest[]> {
  const helm = await buildHelm();
  const chart = join(root, "deploy/helm/cocoon");
  const rendered = await runCommand(helm, ["template", "cocoon", chart, "-n", "cocoon-system", ...args]);
  assert.equal(rendered.code, 0, rendered.stderr);
  return read(rendered.stdout);
}
