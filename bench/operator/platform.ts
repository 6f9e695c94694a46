/** The operator as a process of its own beside a fake kubelet, on a control plane and a registry of its own. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { startProgram } from "@cocoon/core";
import {
  namespaces,
  openKubeClient,
  resourceType,
  serviceAccounts,
  type KubeConnection,
  type KubeObject,
} from "@cocoon/kube";
import { createSelfSignedPair } from "@cocoon/kube/certificates";
import { fixedCredential, openRegistry } from "@cocoon/oci";
import { startRegistry } from "@cocoon/registry";
import { openFakeStorage } from "@cocoon/registry/testing";
import { eventually, freePort, temporaryDirectory, type TestCluster } from "@cocoon/testkit";
import { FakeKubelet } from "../../test/integration/operator/fake-kubelet.ts";
import { readNumbers, type Numbers } from "./operator-metrics.ts";

/** As in deploy/operator. */
const nodeOptions = ["--max-semi-space-size=2"];
export const namespace = "bench";
const pool = "bench";

interface SetObject extends KubeObject {
  readonly spec?: unknown;
  readonly status?: { readonly phase?: string };
}
export const sets = resourceType<SetObject>({
  group: "cocoonset.cocoonstack.io",
  version: "v1",
  kind: "CocoonSet",
  plural: "cocoonsets",
  namespaced: true,
});

export interface Platform extends AsyncDisposable {
  readonly connection: KubeConnection;
  readonly signal: AbortSignal;
  readNumbers(): Promise<Numbers>;
}

export interface PlatformOptions {
  readonly cluster: TestCluster;
  /** File of the operator's program. */
  readonly main: string;
  readonly tls: boolean;
  readonly signal: AbortSignal;
}

export async function startPlatform({ cluster, main, tls, signal }: PlatformOptions): Promise<Platform> {
  await using stack = new AsyncDisposableStack();
  const directory = stack.use(await temporaryDirectory());
  const certFile = join(directory.path, "registry.pem");
  const keyFile = join(directory.path, "registry.key");
  const pair = await createSelfSignedPair(
    { commonName: "localhost", hosts: ["localhost", "127.0.0.1"] },
    { nowMs: Date.now(), forMs: 86_400_000, backdateMs: 60_000 },
  );
  await writeFile(certFile, pair.certificate);
  await writeFile(keyFile, pair.privateKey, { mode: 0o600 });
  const server = stack.use(
    await startRegistry({
      storage: { kind: "given", storage: openFakeStorage() },
      ...(tls ? { tls: { certFile, keyFile } } : {}),
    }),
  );
  const token = await server.createToken({ name: "bench" });
  const credentials = fixedCredential({ kind: "bearer", token });
  const trusted = tls ? { ca: pair.certificate } : {};
  const registry = stack.use(openRegistry({ address: server.url, credentials, ...trusted }));
  const connection = stack.use(await openKubeClient({ kubeconfig: cluster.kubeconfigPath, signal }));
  await connection.create(namespaces, { metadata: { name: namespace } }, { signal });
  await connection.create(serviceAccounts, { metadata: { namespace, name: "default" } }, { signal });
  const nodeNames = Array.from({ length: 4 }, (_, index) => `bench-${index}`);
  stack.use(
    await new FakeKubelet({ connection, registry, namespace, pool, nodeNames, bindsPods: true }).start(),
  );
  const [metricsPort, probePort] = [await freePort(), await freePort()];
  stack.use(
    await startProgram({
      name: "cocoon-operator",
      command: process.execPath,
      args: [...nodeOptions, main],
      env: {
        PATH: process.env["PATH"] ?? "",
        HOME: directory.path,
        KUBECONFIG: cluster.kubeconfigPath,
        OCI_REGISTRY: server.url,
        EPOCH_TOKEN: token,
        ...(tls ? { EPOCH_CA_CERT: certFile } : {}),
        METRICS_ADDR: `127.0.0.1:${metricsPort}`,
        PROBE_ADDR: `127.0.0.1:${probePort}`,
        LEADER_ELECT: "false",
        MALLOC_ARENA_MAX: "1",
        MALLOC_TRIM_THRESHOLD_: "131072",
        WATCH_NAMESPACE: namespace,
        OPERATOR_LOG_LEVEL: "warn",
      },
      logFile: join(directory.path, "operator.log"),
    }),
  );
  await eventually(
    async () => {
      const answer = await fetch(`http://127.0.0.1:${probePort}/readyz`, { signal });
      if (answer.status !== 200) throw new Error(await answer.text());
    },
    { signal },
  );
  const owned = stack.move();
  return {
    connection,
    signal,
    readNumbers: () => readNumbers(metricsPort, signal),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** Four pods: main, two sub-agents, one toolbox. */
function buildSpec(): object {
  return {
    nodePool: pool,
    snapshotPolicy: "never",
    agent: { image: "team/base:v1", replicas: 2, probePort: 22 },
    toolboxes: [{ name: "box", image: "tools:v1" }],
  };
}

export async function forEachSet(
  { prefix, count }: { readonly prefix: string; readonly count: number },
  act: (name: string) => Promise<unknown>,
): Promise<void> {
  let next = 0;
  const worker = async () => {
    while (next < count) await act(`${prefix}-${(next += 1)}`);
  };
  await Promise.all(Array.from({ length: 16 }, worker));
}

export function createSets(
  { connection, signal }: Platform,
  names: { readonly prefix: string; readonly count: number },
): Promise<void> {
  return forEachSet(names, (name) =>
    connection.create(sets, { metadata: { namespace, name }, spec: buildSpec() }, { signal }),
  );
}

/** Waits until `count` sets of that prefix are there, all of them Running; with 0, until none is left. */
export async function reachAll(
  { connection, signal }: Platform,
  { prefix, count }: { readonly prefix: string; readonly count: number },
): Promise<void> {
  await eventually(
    async () => {
      let [there, running] = [0, 0];
      for await (const { items } of connection.pages(sets, { namespace, signal, limit: 500 }))
        for (const { metadata, status } of items) {
          if (!metadata.name?.startsWith(`${prefix}-`)) continue;
          there += 1;
          if (status?.phase === "Running") running += 1;
        }
      if (there !== count || running !== count)
        throw new Error(`${prefix}: ${running} of ${there} sets are Running`);
    },
    { timeoutMs: 540_000, intervalMs: 500, signal },
  );
}
