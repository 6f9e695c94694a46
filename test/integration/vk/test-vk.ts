/** vk-cocoon on a real API server and a real registry, with VMs in memory; it can be killed between two steps. */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import { issueCertificate } from "@cocoon/controlplane";
import { aborted, isFault, silentLogger } from "@cocoon/core";
import { openKubeClient, pods as podType } from "@cocoon/kube";
import { fixedCredential, openRegistry, type Registry, type SnapshotFormat } from "@cocoon/oci";
import { startRegistry, type RunningRegistry } from "@cocoon/registry";
import { openFakeStorage } from "@cocoon/registry/testing";
import { temporaryDirectory, type TestCluster, type TestNamespace } from "@cocoon/testkit";
import type { VmRuntime } from "@cocoon/vm";
import { FakeHost, FakeRuntime, type FakeVm } from "@cocoon/vm/testing";
import { startVk, type RunningVk, type VkOptions } from "@cocoon/vk";

export interface World extends AsyncDisposable {
  readonly cluster: TestCluster;
  readonly namespace: TestNamespace;
  readonly registry: Registry;
  /** Loses content, as a failing disk does. */
  deleteBlob(repository: string, digest: string): Promise<void>;
  readonly server: RunningRegistry;
  /** For the registry. */
  readonly token: string;
  /** With VMs in memory, or on the runtime given. */
  newNode(options?: NewNode): Promise<TestVk>;
  pod(name: string): Promise<PodView | undefined>;
  /** Creates a pod; applies anything else. */
  apply(object: object): Promise<void>;
  annotate(pod: string, ...changes: string[]): Promise<void>;
  tagged(vmName: string, tag: string): Promise<string | undefined>;
}

/** Settings of a node that are not the test's usual ones. */
export type NodeChanges = Partial<
  Omit<VkOptions, "client" | "runtime" | "registry" | "node" | "api" | "signal" | "beforeStep">
>;

interface NewNode {
  /** Of pushed snapshots; default packed. */
  readonly format?: SnapshotFormat;
  readonly runtime?: () => Promise<VmRuntime>;
  readonly changes?: NodeChanges;
}

export interface PodView {
  readonly metadata: {
    readonly uid: string;
    readonly annotations: Readonly<Record<string, string>>;
    readonly deletionTimestamp?: string;
  };
  readonly status: {
    readonly phase: string;
    readonly podIP?: string;
    readonly reason?: string;
    readonly conditions: readonly {
      readonly type: string;
      readonly status: string;
      readonly reason?: string;
    }[];
    readonly containerStatuses?: readonly {
      readonly restartCount: number;
      readonly state: Readonly<Record<string, { readonly reason?: string }>>;
    }[];
  };
}

/** One host with its kubelet, which can be killed and started again. */
export interface TestVk {
  readonly name: string;
  readonly host: FakeHost;
  /** The VM of that name; throws when it is not there. */
  vm(name: string): FakeVm;
  running(): readonly FakeVm[];
  /** Names of the host's own snapshots. */
  snapshots(): readonly string[];
  /** Called before each step; a kill here never lets the step happen. */
  beforeStep: (vmName: string, step: string) => Promise<void>;
  readonly steps: string[];
  start(): Promise<void>;
  /** As SIGKILL does: what is under way stops where it is. */
  kill(): Promise<void>;
  /** Kills it, for ever blocked, when this step comes. */
  killBefore(step: string): Promise<void>;
}

interface RegistryAccess {
  readonly url: string;
  readonly token: string;
}

/** Instead of the given registry, a proxy in front of it or another one. */
export type ChooseRegistry = (given: RegistryAccess) => Promise<RegistryAccess>;

export async function openWorld(
  cluster: TestCluster,
  choose: ChooseRegistry = (given) => Promise.resolve(given),
): Promise<World> {
  const stack = new AsyncDisposableStack();
  await letApiServerIn(cluster);
  const namespace = stack.use(await cluster.newNamespace());
  const server = stack.use(await startRegistry({ storage: { kind: "given", storage: openFakeStorage() } }));
  const given = { url: server.url, token: await server.createToken({ name: "test" }) };
  const { url, token } = await choose(given);
  const open = () => openRegistry({ address: url, credentials: fixedCredential({ kind: "bearer", token }) });
  const registry = stack.use(open());
  const life = new AbortController();
  stack.defer(() => life.abort());
  const client = stack.use(await openKubeClient({ kubeconfig: cluster.kubeconfigPath, signal: life.signal }));
  const kubectl = async (args: readonly string[], input?: string) => {
    const done = await cluster.kubectl([...args, "-n", namespace.name], input === undefined ? {} : { input });
    assert.equal(done.code, 0, done.stderr);
    return done.stdout;
  };
  return {
    cluster,
    namespace,
    registry,
    deleteBlob: async (repository, digest) => {
      const headers = { authorization: `Bearer ${token}` };
      const answer = await fetch(`${url}/v2/${repository}/blobs/${digest}`, { method: "DELETE", headers });
      assert.equal(answer.status, 202);
    },
    server,
    token,
    newNode: async (more = {}) => {
      const name = `vk-${randomBytes(4).toString("hex")}`;
      const node = await makeNode({ cluster, name, stack, registry: open, ...more });
      await node.start();
      return node;
    },
    pod: async (name) => {
      try {
        const found = await client.get(podType, { namespace: namespace.name, name }, { signal: life.signal });
        return { ...found, metadata: { annotations: {}, ...found.metadata } } as unknown as PodView;
      } catch (error) {
        if (isFault(error, "notFound")) return undefined;
        throw error;
      }
    },
    apply: async (object) => {
      const pod = object as { kind: string; metadata: object };
      const placed = { ...pod, metadata: { ...pod.metadata, namespace: namespace.name } };
      if (pod.kind === "Pod") await client.create(podType, placed, { signal: life.signal });
      else await kubectl(["apply", "-f", "-"], JSON.stringify(object));
    },
    annotate: async (pod, ...changes) => {
      const annotations = Object.fromEntries(
        changes.map((change) => {
          const [key = "", value] = change.split("=");
          return value === undefined ? [key.replace(/-$/, ""), null] : [key, value];
        }),
      );
      const body = { metadata: { annotations } };
      await client.patch(
        podType,
        { key: { namespace: namespace.name, name: pod }, patch: { type: "merge", body } },
        { signal: life.signal },
      );
    },
    tagged: async (vmName, tag) =>
      (await registry.repository(vmName).headManifest(tag, { signal: AbortSignal.timeout(10_000) }))?.digest,
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

const letIn = new WeakSet<TestCluster>();

/** What an installer grants once: the API server may use the kubelets' API. */
async function letApiServerIn(cluster: TestCluster): Promise<void> {
  if (letIn.has(cluster)) return;
  letIn.add(cluster);
  const binding = {
    apiVersion: "rbac.authorization.k8s.io/v1",
    kind: "ClusterRoleBinding",
    metadata: { name: "cocoon:kube-apiserver-kubelet-client" },
    roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "system:kubelet-api-admin" },
    subjects: [
      { apiGroup: "rbac.authorization.k8s.io", kind: "User", name: "kube-apiserver-kubelet-client" },
    ],
  };
  const applied = await cluster.kubectl(["apply", "-f", "-"], { input: JSON.stringify(binding) });
  assert.equal(applied.code, 0, applied.stderr);
}

interface NodeParts extends NewNode {
  readonly cluster: TestCluster;
  readonly name: string;
  readonly stack: AsyncDisposableStack;
  readonly registry: () => Registry;
}

async function makeNode(wanted: NodeParts): Promise<TestVk> {
  const { cluster, name, stack, registry, runtime, changes, format = "packed" } = wanted;
  const directory = stack.use(await temporaryDirectory());
  const host = new FakeHost({ directory: `${directory.path}/snapshots` });
  const [certificate, key] = await Promise.all([
    readFile(`${cluster.layout.pki}/ca.crt`, "utf8"),
    readFile(`${cluster.layout.pki}/ca.key`, "utf8"),
  ]);
  const serving = await issueCertificate(
    { certificate, key },
    { commonName: name, usage: "server", hosts: ["127.0.0.1"] },
  );
  const api = {
    host: "127.0.0.1",
    port: 0,
    tls: { cert: serving.certificate, key: serving.key, ca: certificate },
  };
  let current: { readonly vk: RunningVk; readonly parts: AsyncDisposableStack } | undefined;
  const node: TestVk = {
    name,
    host,
    vm: (vmName) => host.find(vmName),
    running: () => [...host.vms.values()].filter(({ vm }) => vm.state === "running"),
    snapshots: () => [...host.snapshots.values()].map((snapshot) => snapshot.name),
    steps: [],
    beforeStep: async () => undefined,
    start: async () => {
      const parts = new AsyncDisposableStack();
      const life = new AbortController();
      const { signal } = life;
      const client = parts.use(await openKubeClient({ kubeconfig: cluster.kubeconfigPath, signal }));
      const oci = parts.use(registry());
      const options: VkOptions = {
        client,
        runtime: runtime ? parts.use(await runtime()) : parts.use(new FakeRuntime(host)),
        signal,
        api,
        log: silentLogger,
        orphanPolicy: "alert",
        node: nodeSettings(name, directory.path),
        registry: {
          client: oci,
          format,
          directory: directory.path,
          chunkStoreBytes: 1024 ** 3,
        },
        probeTimes: { firstMs: 20, growth: 1.5, maxMs: 200, readyMs: 500, failures: 3 },
        restartPauseMs: 100,
        handOverMs: 500,
        ...changes,
        beforeStep: async (vmName, step) => {
          node.steps.push(step);
          await node.beforeStep(vmName, step);
          signal.throwIfAborted();
        },
      };
      const vk = parts.use(await startVk(options));
      parts.defer(() => life.abort());
      current = { vk, parts };
    },
    kill: async () => {
      const ending = current;
      current = undefined;
      await ending?.parts.disposeAsync();
    },
    killBefore: (step) => {
      const killed = Promise.withResolvers<void>();
      node.beforeStep = async (_vmName, next) => {
        if (next !== step) return;
        node.beforeStep = async () => undefined;
        killed.resolve(node.kill());
        await aborted(AbortSignal.timeout(100));
        throw new Error("killed");
      };
      return killed.promise;
    },
  };
  stack.defer(() => node.kill());
  stack.defer(async () => void (await cluster.kubectl(["delete", "node", name, "--wait=false"])));
  return node;
}

function nodeSettings(name: string, rootDirectory: string): VkOptions["node"] {
  return {
    name,
    ip: "127.0.0.1",
    pool: "default",
    providerId: "",
    cpuClass: "",
    rootDirectory,
    reservePercent: 0,
    pods: 200,
    cpu: "64",
    memory: "64Gi",
    storage: "100Gi",
    hugepages: undefined,
  };
}

export function machinePod(
  name: string,
  node: string,
  annotations: Readonly<Record<string, string>>,
): Record<string, unknown> {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, annotations },
    spec: {
      nodeName: node,
      tolerations: [{ operator: "Exists" }],
      containers: [{ name: "agent", image: "demo" }],
    },
  };
}

/** A managed machine that boots from an image. */
export function runMachine(vmName: string): Record<string, string> {
  return {
    "vm.cocoonstack.io/name": vmName,
    "cocoonset.cocoonstack.io/managed": "true",
    "cocoonset.cocoonstack.io/mode": "run",
    "cocoonset.cocoonstack.io/image": "https://images.test/demo.img",
    "cocoonset.cocoonstack.io/generation": "3",
  };
}

/** Something that only this machine has in its memory: copies share it, a fresh one has none. */
export function mark(node: TestVk, vmName: string): string {
  const marked = randomBytes(4).toString("hex");
  node.vm(vmName).guest.write("/run/mark", marked);
  return marked;
}

export function readMark(node: TestVk, vmName: string): string | undefined {
  return node.vm(vmName).guest.read("/run/mark");
}
