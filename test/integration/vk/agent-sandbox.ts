/** Sandboxes as the controller of kubernetes-sigs/agent-sandbox keeps them: their objects, and the pods it makes for them. */
import assert from "node:assert/strict";
import { sandboxKind, sandboxVmName } from "@cocoon/contract";
import { createRegistry, silentLogger } from "@cocoon/core";
import { openKubeClient } from "@cocoon/kube";
import { startOperator } from "@cocoon/operator";
import { eventually, type TestCluster } from "@cocoon/testkit";
import { machinePod, runMachine, type World } from "./test-vk.ts";

const crd = {
  apiVersion: "apiextensions.k8s.io/v1",
  kind: "CustomResourceDefinition",
  metadata: {
    name: `${sandboxKind.plural}.${sandboxKind.group}`,
    annotations: { "api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/agent-sandbox" },
  },
  spec: {
    group: sandboxKind.group,
    names: { kind: sandboxKind.kind, plural: sandboxKind.plural, singular: "sandbox" },
    scope: "Namespaced",
    versions: [
      {
        name: sandboxKind.version,
        served: true,
        storage: true,
        subresources: { status: {} },
        schema: {
          openAPIV3Schema: {
            type: "object",
            properties: { spec: { type: "object", "x-kubernetes-preserve-unknown-fields": true } },
          },
        },
      },
    ],
  },
};

export async function installSandboxes(cluster: TestCluster): Promise<void> {
  const applied = await cluster.kubectl(["apply", "--server-side", "-f", "-"], {
    input: JSON.stringify(crd),
  });
  assert.equal(applied.code, 0, applied.stderr);
  const established = ["wait", "--for=condition=Established", `crd/${crd.metadata.name}`, "--timeout=30s"];
  assert.equal((await cluster.kubectl(established)).code, 0);
}

export interface TestSandbox {
  readonly name: string;
  readonly uid: string;
  readonly vmName: string;
}

export async function createSandbox(world: World, name: string): Promise<TestSandbox> {
  const object = {
    apiVersion: `${sandboxKind.group}/${sandboxKind.version}`,
    kind: sandboxKind.kind,
    metadata: { name, namespace: world.namespace.name },
    spec: { operatingMode: "Running", podTemplate: { spec: { containers: [] } } },
  };
  await world.apply(object);
  const read = await kubectl(world, ["get", "sandbox", name, "-o", "jsonpath={.metadata.uid}"]);
  return { name, uid: read, vmName: sandboxVmName(world.namespace.name, read) };
}

/** As the controller makes it, and the webhook admits it. */
export function sandboxPod(sandbox: TestSandbox, node: string): Record<string, unknown> {
  const pod = machinePod(sandbox.name, node, {
    ...runMachine(sandbox.vmName),
    "cocoonset.cocoonstack.io/snapshot-policy": "never",
  });
  const owner = {
    apiVersion: `${sandboxKind.group}/${sandboxKind.version}`,
    kind: sandboxKind.kind,
    name: sandbox.name,
    uid: sandbox.uid,
    controller: true,
    blockOwnerDeletion: true,
  };
  return { ...pod, metadata: { ...(pod["metadata"] as object), ownerReferences: [owner] } };
}

/** What the controller does to the pod of a Sandbox in mode Suspended: a deletion without options. */
export async function deletePod(world: World, name: string): Promise<void> {
  await kubectl(world, ["delete", "pod", name, "--wait=false"]);
}

export async function podIsGone(world: World, name: string): Promise<void> {
  await eventually(async () => assert.equal(await world.pod(name), undefined), { timeoutMs: 180_000 });
}

export async function isReady(world: World, name: string): Promise<void> {
  await eventually(
    async () => {
      const ready = (await world.pod(name))?.status.conditions?.find(({ type }) => type === "Ready");
      assert.equal(ready?.status, "True");
    },
    { timeoutMs: 180_000 },
  );
}

export async function kubectl(world: World, args: readonly string[]): Promise<string> {
  const done = await world.cluster.kubectl([...args, "-n", world.namespace.name]);
  assert.equal(done.code, 0, done.stderr);
  return done.stdout.trim();
}

/** The operator settles what a Sandbox leaves; it would keep the namespace of a test otherwise. */
export async function withOperator(world: World): Promise<AsyncDisposable> {
  const stack = new AsyncDisposableStack();
  const life = new AbortController();
  const { signal } = life;
  const client = stack.use(await openKubeClient({ kubeconfig: world.cluster.kubeconfigPath, signal }));
  stack.defer(() => life.abort());
  const operator = stack.use(
    startOperator({
      connection: client,
      client,
      registry: world.registry,
      log: silentLogger,
      metrics: createRegistry("cocoon-operator"),
      signal,
      namespace: world.namespace.name,
    }),
  );
  await operator.ready;
  return stack;
}
