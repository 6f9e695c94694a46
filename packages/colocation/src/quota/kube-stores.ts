/** Quota usage and admitted quota changes in the API server. */
import { tryParseJson, ignoreFault } from "@cocoon/core";
import { configMaps, pods, type KubeClient, type Pod } from "@cocoon/kube";
import * as z from "zod";
import type { Gates } from "../gates.ts";
import { type ReadonlyJson } from "../json.ts";
import { quotaKey } from "../keys.ts";
import { elasticQuotas, type ElasticQuota } from "../kinds.ts";
import { computePodRequest } from "../pod/read-pod.ts";
import { readPod } from "../pod/read-pod.ts";
import type { PodAdmissionOptions } from "./pod-admission.ts";
import type { StoredPod } from "./quota-usage.ts";
import { readQuota } from "./quota-tree.ts";
import type { AdmittedChange, ChangeStore } from "./change-admission.ts";

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

export interface ChangeStoreOptions {
  readonly client: KubeClient;
  readonly namespace: string;
  readonly name: string;
  readonly wasStored: (uid: string) => boolean;
}

export function kubeChangeStore({ client, namespace, name, wasStored }: ChangeStoreOptions): ChangeStore {
  const key = { namespace, name };
  return {
    wasStored,
    async readChanges({ signal }) {
      const map = await ignoreFault("notFound", client.get(configMaps, key, { signal }));
      return { version: map?.metadata.resourceVersion, entries: readEntries(map?.data?.[dataKey]) };
    },
    async writeChanges(version, entries, { signal }) {
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

/** A damaged list is started anew: it only holds changes in progress. */
function readEntries(text: string | undefined): readonly AdmittedChange[] {
  const parsed = entriesSchema.safeParse(tryParseJson(text ?? "[]"));
  return parsed.success ? (parsed.data as readonly AdmittedChange[]) : [];
}

export function kubeUsageStore({
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
    listPods: (quota, { signal }) => listPods(client, quota, { gates, signal }),
    async find(name, signal) {
      const { items } = await client.list(elasticQuotas, { fieldSelector: `metadata.name=${name}`, signal });
      return items.map(readQuota);
    },
  };
}

/** By label in all namespaces; without a label in the quota's own namespace and those bound to it. */
async function listPods(
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
  return [{ uid: reading.uid, request: computePodRequest(reading) }];
}
