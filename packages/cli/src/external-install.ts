/** Puts Cocoon into a cluster that exists elsewhere: deploy/install.yaml by server-side apply, and the registry's token. */
import { randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import { systemNamespace } from "@cocoon/contract";
import { Fault, isFault, toFault, type Abortable } from "@cocoon/core";
import {
  keyText,
  resourceType,
  secrets,
  type KubeClient,
  type KubeObject,
  type ResourceType,
} from "@cocoon/kube";
import { parseAllDocuments } from "yaml";
import * as z from "zod";
import { sourceFile } from "./parts/part.ts";

const fieldManager = "cocoonctl";
const tokenSecret = { namespace: systemNamespace, name: "epoch-token" };
const tokenBytes = 32;

const manifestSchema = z.looseObject({
  apiVersion: z.string(),
  kind: z.string(),
  metadata: z.looseObject({ name: z.string(), namespace: z.string().exactOptional() }),
});
type Manifest = z.infer<typeof manifestSchema>;

export interface InstallOptions extends Abortable {
  /** Called for every object that is there. */
  readonly tell: (text: string) => void;
}

/** Repeatable: what is there is brought to this version, the token stays. */
export async function installInto(client: KubeClient, { signal, tell }: InstallOptions): Promise<void> {
  const text = await readFile(sourceFile("deploy", "install.yaml"), "utf8");
  const manifests = parseAllDocuments(text).map((document) => manifestSchema.parse(document.toJS()));
  const types = new Map<string, ResourceType<KubeObject>>();
  for (const manifest of manifests) {
    const type = await typeOf(client, manifest, { types, signal });
    const key = manifest.metadata;
    try {
      await client.patch(
        type,
        { key, patch: { type: "apply", body: manifest, force: true } },
        { signal, fieldManager },
      );
    } catch (error) {
      throw toFault(error, `cannot install ${manifest.kind} ${keyText(key)}`);
    }
    tell(`${manifest.kind} ${keyText(key)}`);
  }
  await ensureToken(client, { signal, tell });
}

interface Discovery extends Abortable {
  /** By version and kind; asked for once. */
  readonly types: Map<string, ResourceType<KubeObject>>;
}

const resourceList = z.object({
  resources: z.array(z.object({ name: z.string(), kind: z.string(), namespaced: z.boolean() })),
});

async function typeOf(
  client: KubeClient,
  { apiVersion, kind }: Manifest,
  { types, signal }: Discovery,
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

/** Made once; whoever has machines asleep needs the old one. */
async function ensureToken(client: KubeClient, { signal, tell }: InstallOptions): Promise<void> {
  const token = randomBytes(tokenBytes).toString("hex");
  const secret = { apiVersion: "v1", kind: "Secret", metadata: tokenSecret, stringData: { token } };
  try {
    await client.create(secrets, secret, { signal, fieldManager });
    tell(`Secret ${keyText(tokenSecret)}`);
  } catch (error) {
    if (!isFault(error, "alreadyExists")) throw error;
  }
}
