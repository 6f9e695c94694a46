/** Asks the API server itself which pods of a namespace are there, where the cache may be behind. */
import { Coalesced, type Abortable } from "@cocoon/core";
import type { KubeClient } from "@cocoon/kube";
import * as z from "zod";
import type { LiveLook } from "./occupancy.ts";

const listSchema = z.object({
  metadata: z.object({ resourceVersion: z.string(), continue: z.string().optional() }),
  items: z
    .array(
      z.object({
        metadata: z.object({ uid: z.string(), annotations: z.record(z.string(), z.string()).optional() }),
      }),
    )
    .nullish(),
});

const metadataOnly = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
const pageSize = 500;
const timeoutMs = 5_000;

interface LookedPod {
  readonly uid: string;
  readonly annotations: Readonly<Record<string, string>>;
}

export interface PodsLook extends LiveLook {
  readonly pods: readonly LookedPod[];
}

export class Looks {
  readonly #byNamespace = new Map<string, Coalesced<PodsLook>>();
  readonly #client: KubeClient;
  readonly #signal: AbortSignal;

  constructor(client: KubeClient, { signal }: Abortable) {
    this.#client = client;
    this.#signal = signal;
  }

  at(namespace: string): Promise<PodsLook> {
    const known = this.#byNamespace.get(namespace);
    if (known) return known.get();
    const looks = new Coalesced(() => lookAtPods(this.#client, namespace, { signal: this.#signal }));
    this.#byNamespace.set(namespace, looks);
    return looks.get();
  }
}

export async function lookAtPods(
  client: KubeClient,
  namespace: string,
  { signal }: Abortable,
): Promise<PodsLook> {
  const pods: LookedPod[] = [];
  let version: bigint | undefined;
  let next = "";
  do {
    const query = new URLSearchParams({
      limit: String(pageSize),
      ...(next === "" ? {} : { continue: next }),
    });
    const page = listSchema.parse(
      await client.raw({
        method: "GET",
        path: `/api/v1/namespaces/${encodeURIComponent(namespace)}/pods?${query.toString()}`,
        headers: { accept: metadataOnly },
        signal,
        timeoutMs,
      }),
    );
    for (const { metadata } of page.items ?? [])
      pods.push({ uid: metadata.uid, annotations: metadata.annotations ?? {} });
    version ??= BigInt(page.metadata.resourceVersion);
    next = page.metadata.continue ?? "";
  } while (next !== "");
  return { namespace, uids: new Set(pods.map(({ uid }) => uid)), version: version ?? 0n, pods };
}
