/** The ledgers' stores in the API server. */
import { isFault } from "@cocoon/core";
import { configMaps, pods, type ConfigMap, type KubeClient, type Pod } from "@cocoon/kube";
import * as z from "zod";
import type { Gates } from "../gates.ts";
import { tryParseJson, type ReadonlyJson } from "../json.ts";
import { quotaKey } from "../keys.ts";
import { elasticQuotas, type ElasticQuota } from "../kinds.ts";
import { podRequest } from "../pod/pod-request.ts";
import { readPod } from "../pod/read-pod.ts";
import type { PodAdmissionOptions } from "./pod-admission.ts";
import type { StoredPod } from "./pod-ledger.ts";
import { readQuota } from "./quota-tree.ts";
import type { LedgerEntry, TreeStore } from "./tree-ledger.ts";

const entriesSchema = z.array(
  z.object({
    id: z.string(),
    operation: z.enum(["CREATE", "UPDATE", "DELETE"]),
    name: z.string(),
    uid: z.string(),
    beforeVersion: z.string(),
    after: z.custom<ElasticQuota>((value) => typeof value === "object" && value !== null).optional(),
    untilMs: z.number(),
  }),
);

const dataKey = "entries";

export interface TreeStoreOptions {
  readonly client: KubeClient;
  readonly namespace: string;
  /** Name of the ConfigMap that the replicas share. */
  readonly name: string;
  readonly wasStored: (uid: string) => boolean;
}

export function kubeTreeStore({ client, namespace, name, wasStored }: TreeStoreOptions): TreeStore {
  const key = { namespace, name };
  return {
    wasStored,
    async readLedger({ signal }) {
      const map = await tryGet(client, key, signal);
      return { version: map?.metadata.resourceVersion, entries: readEntries(map?.data?.[dataKey]) };
    },
    async writeLedger(version, entries, { signal }) {
      const data = { [dataKey]: JSON.stringify(entries) };
      const metadata = { ...key, labels: { "app.kubernetes.io/name": "cocoon-colocation" } };
      if (version === undefined) await client.create(configMaps, { metadata, data }, { signal });
      else
        await client.patch(
          configMaps,
          { key, patch: { type: "merge", body: { metadata: { resourceVersion: version }, data } } },
          { signal },
        );
    },
    async listQuotas({ signal }) {
      const all: ElasticQuota[] = [];
      for await (const { items } of client.pages(elasticQuotas, { signal, limit: 500 })) all.push(...items);
      return all;
    },
  };
}

async function tryGet(
  client: KubeClient,
  key: { readonly namespace: string; readonly name: string },
  signal: AbortSignal,
): Promise<ConfigMap | undefined> {
  try {
    return await client.get(configMaps, key, { signal });
  } catch (error) {
    if (isFault(error, "notFound")) return undefined;
    throw error;
  }
}

/** A ledger that somebody damaged is begun anew: it only holds what is under way. */
function readEntries(text: string | undefined): readonly LedgerEntry[] {
  const parsed = entriesSchema.safeParse(tryParseJson(text ?? "[]")?.value);
  return parsed.success ? (parsed.data as readonly LedgerEntry[]) : [];
}

export function kubePodLedgerStore({
  client,
  gates,
  wasStored,
}: {
  readonly client: KubeClient;
  readonly gates: Gates;
  readonly wasStored: (uid: string) => boolean;
}): PodAdmissionOptions["store"] {
  return {
    wasStored,
    read: (key, { signal }) => client.get(elasticQuotas, key, { signal }),
    write: ({ metadata }, annotations, { signal }) => {
      const { namespace = "", name = "", resourceVersion } = metadata;
      const body = { metadata: { resourceVersion, annotations } };
      return client.patch(
        elasticQuotas,
        { key: { namespace, name }, patch: { type: "merge", body } },
        { signal },
      );
    },
    listPods: (quota, { signal }) => podsOf(client, quota, { gates, signal }),
    async find(name, signal) {
      const { items } = await client.list(elasticQuotas, { fieldSelector: `metadata.name=${name}`, signal });
      return items.map(readQuota);
    },
  };
}

/** By label in all namespaces; without a label in the quota's own namespace and those bound to it. */
async function podsOf(
  client: KubeClient,
  quota: ElasticQuota,
  { gates, signal }: { readonly gates: Gates; readonly signal: AbortSignal },
): Promise<StoredPod[]> {
  const { name, namespace, namespaces } = readQuota(quota);
  const labelled = await listAll(client, { labelSelector: `${quotaKey.name}=${name}`, signal });
  const isOwn = !gates.DisableDefaultQuota && namespace === name;
  const places = [...new Set([...(isOwn ? [namespace] : []), ...namespaces])];
  const others = await Promise.all(
    places.map((place) => listAll(client, { namespace: place, labelSelector: `!${quotaKey.name}`, signal })),
  );
  return [...labelled, ...others.flat()].flatMap(stored);
}

async function listAll(
  client: KubeClient,
  options: { readonly namespace?: string; readonly labelSelector: string; readonly signal: AbortSignal },
): Promise<Pod[]> {
  const found: Pod[] = [];
  for await (const { items } of client.pages(pods, { limit: 500, ...options })) found.push(...items);
  return found;
}

function stored(pod: Pod): StoredPod[] {
  const reading = readPod(pod as unknown as ReadonlyJson);
  if (reading.phase === "Succeeded" || reading.phase === "Failed") return [];
  return [{ uid: reading.uid, request: podRequest(reading) }];
}
