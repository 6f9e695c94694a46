/** The seed of all tokens: made once, the same for every replica. */
import { randomBytes } from "node:crypto";
import { systemNamespace } from "@cocoon/contract";
import { Fault, isFault, type Abortable } from "@cocoon/core";
import { secrets, type KubeClient } from "@cocoon/kube";

const field = "seed";

export async function ensureSeed(client: KubeClient, name: string, options: Abortable): Promise<string> {
  const key = { namespace: systemNamespace, name };
  try {
    return readSeed(await client.get(secrets, key, options), name);
  } catch (error) {
    if (!isFault(error, "notFound")) throw error;
  }
  const data = { [field]: Buffer.from(randomBytes(32).toString("hex")).toString("base64") };
  try {
    return readSeed(await client.create(secrets, { metadata: key, data }, options), name);
  } catch (error) {
    if (!isFault(error, "alreadyExists")) throw error;
    return readSeed(await client.get(secrets, key, options), name); // another replica was faster
  }
}

function readSeed({ data }: { readonly data?: Readonly<Record<string, string>> }, name: string): string {
  const seed = Buffer.from(data?.[field] ?? "", "base64").toString("utf8");
  if (seed.length < 32)
    throw new Fault(
      "invalid",
      `Secret ${systemNamespace}/${name} has no field ${field} of 32 characters; delete it to have a new one made`,
    );
  return seed;
}
