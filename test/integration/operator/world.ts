/** The operator on a real API server and a real registry, with fake kubelets and machines. */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { hibernateTag, type CocoonHibernation, type CocoonSet, type CocoonSetStatus } from "@cocoon/contract";
import { createLogger, createRegistry, isFault, silentLogger } from "@cocoon/core";
import {
  openKubeClient,
  pods,
  resourceType,
  type KubeConnection,
  type KubeObject,
  type Pod,
  type ResourceType,
} from "@cocoon/kube";
import { fixedCredential, openRegistry, type Registry } from "@cocoon/oci";
import { startOperator, type OperatorOptions, type RunningOperator } from "@cocoon/operator";
import { startRegistry, type RunningRegistry } from "@cocoon/registry";
import { openFakeStorage } from "@cocoon/registry/testing";
import { eventually, type TestCluster } from "@cocoon/testkit";
import { FakeKubelet } from "./fake-kubelet.ts";

const group = { group: "cocoonset.cocoonstack.io", version: "v1", namespaced: true };
export const sets = resourceType<CocoonSet>({ ...group, kind: "CocoonSet", plural: "cocoonsets" });
export const hibernations = resourceType<CocoonHibernation>({
  ...group,
  kind: "CocoonHibernation",
  plural: "cocoonhibernations",
});

export interface TestWorld extends AsyncDisposable {
  readonly cluster: TestCluster;
  readonly connection: KubeConnection;
  readonly namespace: string;
  readonly pool: string;
  readonly nodes: readonly [string, string];
  readonly kubelet: FakeKubelet;
  readonly registry: Registry;
  readonly server: RunningRegistry;
  readonly signal: AbortSignal;
  /** The operator that runs now; stopped and started again by tests that kill it. */
  startOperator(options?: Partial<OperatorOptions>): Promise<RunningOperator>;
  stopOperator(): Promise<void>;
  apply(name: string, spec: object, type?: ResourceType<KubeObject>): Promise<void>;
  patch(name: string, body: object, type?: ResourceType<KubeObject>): Promise<void>;
  set(name: string): Promise<CocoonSet>;
  hibernation(name: string): Promise<CocoonHibernation>;
  pod(name: string): Promise<Pod | undefined>;
  podNames(): Promise<readonly string[]>;
  digest(vmName: string, tag?: string): Promise<string | undefined>;
  tags(vmName: string): Promise<readonly string[]>;
  /** Waits until the set's status is as asserted. */
  reaches(name: string, check: (status: CocoonSetStatus, set: CocoonSet) => void): Promise<CocoonSet>;
  hibernationReaches(name: string, phase: string): Promise<CocoonHibernation>;
  vmName(podName: string): string;
  events(): Promise<readonly string[]>;
}

export interface WorldOptions {
  readonly operator?: Partial<OperatorOptions>;
  readonly leavesTags?: boolean;
  readonly bootsFresh?: boolean;
  readonly withoutOperator?: boolean;
}

export async function openWorld(cluster: TestCluster, options: WorldOptions = {}): Promise<TestWorld> {
  const stack = new AsyncDisposableStack();
  const life = new AbortController();
  stack.defer(() => life.abort());
  const { signal } = life;
  const namespace = stack.use(await cluster.newNamespace()).name;
  const id = randomBytes(3).toString("hex");
  const pool = `pool-${id}`;
  const nodeNames = [`${id}-a`, `${id}-b`] as const;
  const server = stack.use(await startRegistry({ storage: { kind: "given", storage: openFakeStorage() } }));
  const token = await server.createToken({ name: "test" });
  const credentials = fixedCredential({ kind: "bearer", token });
  const open = () => openRegistry({ address: server.url, credentials, retry: { attempts: 1 } });
  const registry = stack.use(open());
  const connection = stack.use(await openKubeClient({ kubeconfig: cluster.kubeconfigPath, signal }));
  const kubelet = stack.use(
    await new FakeKubelet({
      connection,
      registry,
      namespace,
      pool,
      nodeNames,
      ...(options.leavesTags ? { leavesTags: true } : {}),
      ...(options.bootsFresh ? { bootsFresh: true } : {}),
    }).start(),
  );
  let running: { readonly operator: RunningOperator; readonly parts: AsyncDisposableStack } | undefined;
  const world: TestWorld = {
    cluster,
    connection,
    namespace,
    pool,
    nodes: nodeNames,
    kubelet,
    registry,
    server,
    signal,
    startOperator: async (overrides = {}) => {
      const parts = new AsyncDisposableStack();
      const end = new AbortController();
      const own = parts.use(await openKubeClient({ kubeconfig: cluster.kubeconfigPath, signal }));
      const oci = parts.use(open());
      const operator = parts.use(
        startOperator({
          connection: own,
          client: own,
          registry: oci,
          namespace,
          log: process.env["OPERATOR_TEST_LOG"]
            ? createLogger({ name: "operator", level: "debug" })
            : silentLogger,
          metrics: createRegistry("test"),
          signal: end.signal,
          resyncMs: 2_000,
          statusDelayMs: 300,
          ...options.operator,
          ...overrides,
        }),
      );
      parts.defer(() => end.abort());
      running = { operator, parts };
      await operator.ready;
      return operator;
    },
    stopOperator: async () => {
      const ending = running;
      running = undefined;
      await ending?.parts.disposeAsync();
    },
    apply: async (name, spec, type = sets) => {
      await connection.create(type, { metadata: { namespace, name }, spec } as KubeObject, { signal });
    },
    patch: async (name, body, type = sets) => {
      await connection.patch(type, { key: { namespace, name }, patch: { type: "merge", body } }, { signal });
    },
    set: (name) => connection.get(sets, { namespace, name }, { signal }),
    hibernation: (name) => connection.get(hibernations, { namespace, name }, { signal }),
    pod: async (name) => {
      try {
        return await connection.get(pods, { namespace, name }, { signal });
      } catch (error) {
        if (isFault(error, "notFound")) return undefined;
        throw error;
      }
    },
    podNames: async () => {
      const { items } = await connection.list(pods, { namespace, signal });
      return items.map((pod) => pod.metadata.name ?? "").sort();
    },
    digest: async (vmName, tag = hibernateTag) =>
      (await registry.repository(vmName).headManifest(tag, { signal }))?.digest,
    tags: async (vmName) => (await Array.fromAsync(registry.repository(vmName).tags({ signal }))).sort(),
    reaches: (name, check) =>
      eventually(
        async () => {
          const set = await world.set(name);
          check(set.status ?? {}, set);
          return set;
        },
        { timeoutMs: 60_000, intervalMs: 50 },
      ),
    hibernationReaches: (name, phase) =>
      eventually(
        async () => {
          const object = await world.hibernation(name);
          assert.equal(object.status?.phase, phase, JSON.stringify(object.status));
          return object;
        },
        { timeoutMs: 60_000, intervalMs: 50 },
      ),
    vmName: (podName) => `vk-${namespace}-${podName}`,
    events: async () => {
      const listed = await cluster.kubectl([
        "get",
        "events",
        "-n",
        namespace,
        "-o",
        "jsonpath={range .items[*]}{.involvedObject.kind}/{.involvedObject.name} {.reason}{'\\n'}{end}",
      ]);
      return listed.stdout.split("\n").filter((line) => line !== "");
    },
    [Symbol.asyncDispose]: async () => {
      await world.stopOperator();
      await releaseFinalizers(world);
      await stack.disposeAsync();
    },
  };
  if (!options.withoutOperator) await world.startOperator();
  return world;
}

/** A namespace that is deleted must not wait for an operator that is gone. */
async function releaseFinalizers({ connection, namespace, signal }: TestWorld): Promise<void> {
  for (const type of [sets, hibernations] as readonly ResourceType<KubeObject>[])
    for (const { metadata } of (await connection.list(type, { namespace, signal })).items) {
      const patch = { type: "merge", body: { metadata: { finalizers: null } } } as const;
      const key = { namespace, name: metadata.name ?? "" };
      await connection.patch(type, { key, patch }, { signal }).catch(() => undefined);
    }
}

/** A set in this world's pool. */
export function buildSpec(world: TestWorld, spec: object = {}, agent: object = {}): object {
  return { nodePool: world.pool, ...spec, agent: { image: "team/base:v1", ...agent } };
}
