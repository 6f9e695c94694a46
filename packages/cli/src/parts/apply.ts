/** Puts manifests into a cluster by server-side apply, as `kubectl apply --server-side` does. Repeatable. */
import { readFile } from "node:fs/promises";
import { Fault, ignoreFault, toFault, type Abortable } from "@cocoon/core";
import {
  keyText,
  openKubeClient,
  resourceType,
  type KubeClient,
  type KubeObject,
  type ResourceType,
} from "@cocoon/kube";
import { parseAllDocuments } from "yaml";
import * as z from "zod";
import { sourceFile, type PartContext } from "./part.ts";

export const fieldManager = "cocoonctl";

const manifestSchema = z.looseObject({
  apiVersion: z.string(),
  kind: z.string(),
  metadata: z.looseObject({ name: z.string(), namespace: z.string().exactOptional() }),
});
export type Manifest = z.infer<typeof manifestSchema>;

/** Files are named relative to deploy/. */
export async function readManifests(...files: readonly string[]): Promise<Manifest[]> {
  const texts = await Promise.all(files.map((file) => readFile(sourceFile("deploy", file), "utf8")));
  return texts.flatMap((text) =>
    parseAllDocuments(text, { version: "1.1" }).map((document) => manifestSchema.parse(document.toJS())),
  );
}

export async function applyTo(
  client: KubeClient,
  manifests: readonly Manifest[],
  { signal, report }: Abortable & { readonly report?: (text: string) => void },
): Promise<void> {
  const types: Types = new Map();
  for (const manifest of manifests) {
    const key = manifest.metadata;
    const type = await findType(client, manifest, { types, signal });
    try {
      const patch = { type: "apply", body: manifest, force: true } as const;
      await client.patch(type, { key, patch }, { signal, fieldManager });
    } catch (error) {
      throw toFault(error, `cannot install ${manifest.kind} ${keyText(key)}`);
    }
    report?.(`${manifest.kind} ${keyText(key)}`);
  }
}

/** By version and kind; looked up once. */
type Types = Map<string, ResourceType<KubeObject>>;

const resourceList = z.object({
  resources: z.array(z.object({ name: z.string(), kind: z.string(), namespaced: z.boolean() })),
});

async function findType(
  client: KubeClient,
  { apiVersion, kind }: Manifest,
  { types, signal }: Abortable & { readonly types: Types },
): Promise<ResourceType<KubeObject>> {
  if (!types.has(`${apiVersion}/${kind}`)) {
    const [version = "", group = ""] = apiVersion.split("/").toReversed();
    const path = group === "" ? `/api/${version}` : `/apis/${apiVersion}`;
    const { resources } = resourceList.parse(await client.raw({ method: "GET", path, signal }));
    for (const { name: plural, kind: each, namespaced } of resources)
      if (!plural.includes("/"))
        types.set(`${apiVersion}/${each}`, resourceType({ group, version, kind: each, plural, namespaced }));
  }
  const type = types.get(`${apiVersion}/${kind}`);
  if (type) return type;
  throw new Fault(
    "notFound",
    `the cluster does not serve ${kind} of ${apiVersion}; Kubernetes 1.30 or newer does`,
  );
}

type Access = Pick<PartContext, "kubeconfig">;

export async function applyManifests(
  { kubeconfig }: Access,
  manifests: readonly Manifest[],
  { signal }: Abortable,
): Promise<void> {
  await using client = await openKubeClient({ signal, kubeconfig });
  await applyTo(client, manifests, { signal });
}

export async function applyFiles(
  access: Access,
  files: readonly string[],
  options: Abortable,
): Promise<void> {
  await applyManifests(access, await readManifests(...files), options);
}

/** For what administrators change afterwards: created when it is missing, never touched again. */
export async function createMissing(
  { kubeconfig }: Access,
  file: string,
  { signal }: Abortable,
): Promise<void> {
  await using client = await openKubeClient({ signal, kubeconfig });
  for (const manifest of await readManifests(file)) {
    const type = await findType(client, manifest, { types: new Map(), signal });
    const found = await ignoreFault("notFound", client.get(type, manifest.metadata, { signal }));
    if (!found) await applyTo(client, [manifest], { signal });
  }
}
