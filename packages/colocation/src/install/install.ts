/** Puts our CustomResourceDefinitions in a cluster; those of somebody else are left as they are. */
import { isFault, type Abortable, type Logger } from "@cocoon/core";
import { customResourceDefinitions, type CustomResourceDefinition, type KubeClient } from "@cocoon/kube";
import { colocationCustomResources, ownerLabels } from "./custom-resources.ts";

/** Names of those that were left alone. May be called again and again. */
export async function installCustomResources(
  client: KubeClient,
  { signal, log }: Abortable & { readonly log: Logger },
): Promise<string[]> {
  const skipped: string[] = [];
  for (const wanted of colocationCustomResources()) {
    const definition = wanted as unknown as CustomResourceDefinition;
    const { name } = wanted.metadata;
    const found = await tryGet(client, name, signal);
    if (!found) await client.create(customResourceDefinitions, definition, { signal });
    else if (isOurs(found)) {
      const { resourceVersion } = found.metadata;
      const metadata = {
        ...found.metadata,
        ...definition.metadata,
        ...(resourceVersion ? { resourceVersion } : {}),
      };
      await client.update(customResourceDefinitions, { ...definition, metadata }, { signal });
    } else {
      skipped.push(name);
      log.info({ definition: name }, "definition is somebody else's and stays as it is");
    }
  }
  return skipped;
}

function isOurs({ metadata }: CustomResourceDefinition): boolean {
  return Object.entries(ownerLabels).every(([key, value]) => metadata.labels?.[key] === value);
}

async function tryGet(
  client: KubeClient,
  name: string,
  signal: AbortSignal,
): Promise<CustomResourceDefinition | undefined> {
  try {
    return await client.get(customResourceDefinitions, { name }, { signal });
  } catch (error) {
    if (isFault(error, "notFound")) return undefined;
    throw error;
  }
}
