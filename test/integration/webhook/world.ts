/** A cluster with the webhook installed as deploy/ registers it, only reached by URL instead of by Service. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { systemNamespace } from "@cocoon/contract";
import {
  configMaps,
  mutatingWebhookConfigurations,
  openKubeClient,
  validatingWebhookConfigurations,
  type KubeConnection,
  type WebhookConfiguration,
} from "@cocoon/kube";
import type { TestCluster } from "@cocoon/testkit";
import { parseAllDocuments } from "yaml";
import { installCrds } from "../contract/install-crds.ts";
import { startReplica, type Replica } from "./replica.ts";
import { startTestService, type TestService } from "./service.ts";

const signal = new AbortController().signal;
const manifest = join(import.meta.dirname, "../../../deploy/webhook/base/webhooks.yaml");

export interface WebhookWorld extends AsyncDisposable {
  readonly cluster: TestCluster;
  readonly client: KubeConnection;
  readonly service: TestService;
  /** Starts a replica behind the service, and waits until it is ready. */
  addReplica(name: string, env?: Readonly<Record<string, string>>): Promise<Replica>;
  /** Takes a replica out of the service; it goes on running. */
  retire(replica: Replica): void;
  entries(): Promise<StoredEntry[]>;
  replicas(): readonly Replica[];
}

export interface StoredEntry {
  readonly key: string;
  readonly shard: string;
  readonly pool: string;
  readonly namespace: string;
  readonly deployment: string;
  readonly slot: number;
  readonly vmName: string;
  readonly pod: string;
  readonly node: string;
  readonly updatedAt: string;
  readonly podUid?: string;
  readonly claim?: string;
  readonly goneSince?: string;
}

export async function buildWorld(cluster: TestCluster): Promise<WebhookWorld> {
  await using stack = new AsyncDisposableStack();
  const client = stack.use(await openKubeClient({ kubeconfig: cluster.kubeconfigPath, signal }));
  await installCrds(cluster);
  const made = await cluster.kubectl(["create", "namespace", systemNamespace]);
  assert.ok(made.code === 0 || made.stderr.includes("AlreadyExists"), made.stderr);
  const service = stack.use(await startTestService());
  await register(client, service.url);
  const owned = stack.move();
  const replicas: Replica[] = [];
  return {
    cluster,
    client,
    service,
    addReplica: async (name, env) => {
      const replica = owned.use(await startReplica(cluster, name, env));
      await replica.ready();
      service.add(replica.port);
      replicas.push(replica);
      return replica;
    },
    retire: (replica) => service.remove(replica.port),
    replicas: () => replicas,
    entries: () => readEntries(client),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

const types = {
  MutatingWebhookConfiguration: mutatingWebhookConfigurations,
  ValidatingWebhookConfiguration: validatingWebhookConfigurations,
};

async function register(client: KubeConnection, url: string): Promise<void> {
  for (const document of parseAllDocuments(readFileSync(manifest, "utf8"))) {
    const object = document.toJS() as WebhookConfiguration & { kind: keyof typeof types };
    const webhooks = object.webhooks?.map((webhook) => {
      const path = webhook.clientConfig.service?.path ?? "";
      return { ...webhook, clientConfig: { url: `${url}${path}` } };
    });
    await client.create(types[object.kind], { ...object, webhooks: webhooks ?? [] }, { signal });
  }
}

async function readEntries(client: KubeConnection): Promise<StoredEntry[]> {
  const labelSelector = "app.kubernetes.io/managed-by=cocoon-webhook";
  const { items } = await client.list(configMaps, { namespace: systemNamespace, labelSelector, signal });
  return items.flatMap(({ metadata, data }) =>
    Object.entries(data ?? {}).map(([key, text]) => ({
      ...(JSON.parse(text) as StoredEntry),
      key,
      shard: metadata.name ?? "",
    })),
  );
}
