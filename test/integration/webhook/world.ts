/**
 * A cluster with the webhook installed from deploy/: its rights, its registration. Only the replicas run here instead of
 * in pods, with the token of their service account, and are reached by URL instead of by Service.
 */
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { systemNamespace } from "@cocoon/contract";
import { configMaps, openKubeClient, type KubeConnection, type WebhookConfiguration } from "@cocoon/kube";
import type { TestCluster } from "@cocoon/testkit";
import { parse, parseAllDocuments } from "yaml";
import { installCrds } from "../contract/install-crds.ts";
import { startReplica, type Replica } from "./replica.ts";
import { startTestService, type TestService } from "./service.ts";

const signal = new AbortController().signal;
const overlay = join(import.meta.dirname, "../../../deploy/webhook/overlays/built-in-certificates");

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
  const service = stack.use(await startTestService());
  await install(cluster, service.url);
  const account = await accountKubeconfig(cluster);
  const owned = stack.move();
  const replicas: Replica[] = [];
  return {
    cluster,
    client,
    service,
    addReplica: async (name, env) => {
      const replica = owned.use(await startReplica(account, name, env));
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

async function install(cluster: TestCluster, url: string): Promise<void> {
  const built = await cluster.kubectl(["kustomize", overlay]);
  assert.equal(built.code, 0, built.stderr);
  const items = parseAllDocuments(built.stdout).map((document) => {
    const object = document.toJS() as WebhookConfiguration;
    if (!object.webhooks) return object;
    const webhooks = object.webhooks.map((webhook) => ({
      ...webhook,
      clientConfig: { url: `${url}${webhook.clientConfig.service?.path ?? ""}` },
    }));
    return { ...object, webhooks };
  });
  const input = JSON.stringify({ apiVersion: "v1", kind: "List", items });
  const applied = await cluster.kubectl(["apply", "-f", "-"], { input });
  assert.equal(applied.code, 0, applied.stderr);
}

/** With no more rights than deploy/ gives. */
async function accountKubeconfig(cluster: TestCluster): Promise<string> {
  const made = await cluster.kubectl([
    "-n",
    systemNamespace,
    "create",
    "token",
    "cocoon-webhook",
    "--duration=4h",
  ]);
  assert.equal(made.code, 0, made.stderr);
  const config = parse(cluster.kubeconfig) as { users: { user: object }[] };
  const users = config.users.map((each) => ({ ...each, user: { token: made.stdout.trim() } }));
  const path = join(cluster.layout.directory, "webhook.kubeconfig");
  writeFileSync(path, JSON.stringify({ ...config, users }), { mode: 0o600 });
  return path;
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
