/** A control plane of its own for these tests: their webhooks are for the whole cluster, not for one namespace. */
import assert from "node:assert/strict";
import { createLogger, type Logger } from "@cocoon/core";
import {
  customResourceDefinitions,
  mutatingWebhookConfigurations,
  openKubeClient,
  resourceType,
  validatingWebhookConfigurations,
  type KubeConnection,
  type KubeObject,
} from "@cocoon/kube";
import {
  readGates,
  startColocation,
  type ColocationSettings,
  type RunningColocation,
} from "@cocoon/colocation";
import { readDefinitions } from "@cocoon/colocation/testing/manifests";
import { eventually, ownControlPlane, type OwnControlPlane } from "@cocoon/testkit";

export const signal: AbortSignal = new AbortController().signal;

export const testLog: Logger = createLogger({
  name: "test",
  level: process.env["TEST_LOG_LEVEL"] ?? "error",
});

export interface ColocationCluster extends AsyncDisposable {
  readonly cluster: OwnControlPlane;
  readonly client: KubeConnection;
}

let shared: Promise<ColocationCluster> | undefined;

/** The one of this process. */
export function sharedCluster(): Promise<ColocationCluster> {
  shared ??= startCluster();
  return shared;
}

/** No webhook may be called any more once the replicas are gone. */
export async function unregister(
  client: KubeConnection,
  names: ColocationSettings["configurationNames"],
): Promise<void> {
  for (const [type, name] of [
    [mutatingWebhookConfigurations, names.mutating],
    [validatingWebhookConfigurations, names.validating],
  ] as const)
    await client.delete(type, { name }, { signal });
}

/** With the CRDs, the PriorityClasses and the namespace of the webhooks. */
async function startCluster(): Promise<ColocationCluster> {
  const stack = new AsyncDisposableStack();
  try {
    const cluster = stack.use(await ownControlPlane());
    const client = stack.use(await openTestClient(cluster));
    for (const definition of readDefinitions())
      await client.create(customResourceDefinitions, definition, { signal });
    await eventually(
      async () => {
        for (const { metadata } of readDefinitions()) {
          const { status } = await client.get(customResourceDefinitions, { name: metadata.name }, { signal });
          assert.ok(
            status?.conditions?.some(({ type, status }) => type === "Established" && status === "True"),
          );
        }
      },
      { timeoutMs: 60_000 },
    );
    for (const [name, value] of Object.entries(bands)) await createPriorityClass(client, name, value);
    await cluster.kubectl(["create", "namespace", "koordinator-system"]);
    await cluster.kubectl(["label", "namespace", "koordinator-system", "control-plane=koordinator"]);
    const owned = stack.move();
    return { cluster, client, [Symbol.asyncDispose]: () => owned.disposeAsync() };
  } catch (error) {
    await stack.disposeAsync();
    throw error;
  }
}

const bands = { "koord-prod": 9000, "koord-mid": 7000, "koord-batch": 5000, "koord-free": 3000 };

const priorityClass = resourceType<KubeObject & { value: number }>({
  group: "scheduling.k8s.io",
  version: "v1",
  kind: "PriorityClass",
  plural: "priorityclasses",
  namespaced: false,
});

async function createPriorityClass(client: KubeConnection, name: string, value: number): Promise<void> {
  await client.create(priorityClass, { metadata: { name }, value }, { signal });
}

let replicas = 0;

/** Settings of a replica that the API server calls by address. */
export function testSettings(
  overrides: Partial<ColocationSettings> & { readonly featureGates?: string } = {},
): ColocationSettings {
  const { featureGates = "", ...rest } = overrides;
  replicas += 1;
  return {
    host: "127.0.0.1",
    port: 0,
    namespace: "koordinator-system",
    serviceName: "cocoon-colocation",
    url: { host: "127.0.0.1", port: 0 },
    configurationNames: {
      mutating: "cocoon-colocation-mutating",
      validating: "cocoon-colocation-validating",
    },
    certificates: { secretName: "", directory: undefined, replica: `replica-${replicas}` },
    rateLimit: { perSecond: 0, burst: 0 },
    auditLevel: "none",
    lameDuckMs: 0,
    gates: readGates(featureGates).gates,
    warnRules: [],
    configNamespace: "koordinator-system",
    sloConfigName: "slo-controller-config",
    sloNamesNeeded: false,
    maxAmplificationRatio: undefined,
    enhanced: { namespace: "koordinator-system", name: "pod-enhanced-validator-config" },
    binding: {
      users: [],
      dryRun: false,
      namespaces: [],
      excludedNamespaces: ["kube-system"],
      bypassLabels: [],
      bypassAnnotations: [],
    },
    ...rest,
  };
}

/**
 * Runs a replica, and waits until the API server would trust it. It has connections of its own, as a replica in a pod
 * has: requests that wait for it must not take the connections that it needs to answer them.
 */
export async function startReplica(
  { cluster }: ColocationCluster,
  settings: ColocationSettings,
): Promise<RunningColocation> {
  await using stack = new AsyncDisposableStack();
  const client = stack.use(await openTestClient(cluster));
  const running = stack.use(await startColocation({ client, settings, log: testLog, signal }));
  await eventually(async () => assert.equal(await running.readiness(), undefined), { timeoutMs: 60_000 });
  const parts = stack.move();
  return { ...running, [Symbol.asyncDispose]: () => parts.disposeAsync() };
}

function openTestClient(cluster: OwnControlPlane): Promise<KubeConnection> {
  return openKubeClient({ kubeconfig: cluster.kubeconfigPath, signal, timeoutMs: 30_000 });
}

export function assertDone(result: { readonly code: number | null; readonly stderr: string }): void {
  assert.equal(result.code, 0, result.stderr);
}
