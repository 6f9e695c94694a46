/** The objects of `deploy/colocation`, as they are shipped. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parseAllDocuments } from "yaml";
import type { CustomResourceDefinition, KubeObject } from "@cocoon/kube";

const directory = join(import.meta.dirname, "../../../../deploy/colocation");

export function readManifests<T extends KubeObject>(file: string): T[] {
  const documents = parseAllDocuments(readFileSync(join(directory, file), "utf8"));
  return documents.map((document) => document.toJS() as T);
}

export function readDefinitions(): (CustomResourceDefinition & {
  readonly metadata: { readonly name: string };
})[] {
  return readManifests("crds.yaml");
}
