/** What the documented installations consist of, as the tools that people use render them. */
import assert from "node:assert/strict";
import { globSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { runCommand, testBinaries } from "@cocoon/testkit";
import { parseAllDocuments } from "yaml";
import { readIdentity, readManifests, type Manifest } from "../../../scripts/generate/kustomize.ts";
import { buildHelm } from "../../peers/helm.ts";

export const root = join(import.meta.dirname, "../../..");

/** Every directory that `kubectl apply -k` may be given. */
export const kustomizeRoots = globSync("{deploy,config}/**/{k,K}ustomization{.yaml,}", { cwd: root })
  .map((path) => dirname(path))
  .filter((path) => !/\/components(\/|$)/.test(path))
  .toSorted();

export function read(text: string): Manifest[] {
  return parseAllDocuments(text, { version: "1.1" })
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
      .toSorted((a, b) => (readIdentity(a) < readIdentity(b) ? -1 : 1))
      .map((object) => [readIdentity(object), canonical(object)]),
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

/** What Helm prints. */
export async function helmText(...args: readonly string[]): Promise<string> {
  const helm = await buildHelm();
  const chart = join(root, "deploy/helm/cocoon");
  const rendered = await runCommand(helm, ["template", "cocoon", chart, "-n", "cocoon-system", ...args]);
  assert.equal(rendered.code, 0, rendered.stderr);
  return rendered.stdout;
}

export async function helmTemplate(...args: readonly string[]): Promise<Manifest[]> {
  return read(await helmText(...args));
}
