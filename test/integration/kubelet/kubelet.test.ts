/** A whole kubelet on a real control plane with its scheduler and controllers; pods exist in memory only. */
import assert from "node:assert/strict";
import { get } from "node:https";
import { release } from "node:os";
import { test } from "node:test";
import { createAuthority, issueCertificate } from "@cocoon/controlplane";
import { Fault } from "@cocoon/core";
import { eventually, sharedControlPlane, type TestCluster } from "@cocoon/testkit";
import { FakeProvider } from "./fake-provider.ts";
import { podSpec, startNode, type TestKubelet, type TestKubeletOptions } from "./start-node.ts";

const cluster = await sharedControlPlane();

const start = (options: TestKubeletOptions = {}): Promise<TestKubelet> => startNode(cluster, options);

async function apply(namespace: string, object: Record<string, unknown>): Promise<void> {
  const made = await cluster.kubectl(["apply", "-n", namespace, "-f", "-"], {
    input: JSON.stringify(object),
  });
  assert.equal(made.code, 0, made.stderr);
}

async function jsonPath(target: TestCluster, args: readonly string[], path: string): Promise<string> {
  const result = await target.kubectl(["get", ...args, "-o", `jsonpath=${path}`]);
  assert.equal(result.code, 0, result.stderr);
  return result.stdout;
}

test("a Deployment's pods are scheduled here, run, change, and go as soon as the provider is done", async () => {
  await using node = await start();
  await using namespace = await cluster.newNamespace();
  await cluster.kubectl([
    "create",
    "configmap",
    "settings",
    "-n",
    namespace.name,
    "--from-literal=COLOUR=red",
  ]);
  const template = {
    metadata: { labels: { app: "web" } },
    spec: podSpec(node.name, { envFrom: [{ configMapRef: { name: "settings" } }] }),
  };
  await apply(namespace.name, {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { name: "web" },
    spec: { replicas: 3, selector: { matchLabels: { app: "web" } }, template },
  });
  const rollout = await cluster.kubectl([
    "rollout",
    "status",
    "deployment/web",
    "-n",
    namespace.name,
    "--timeout=60s",
  ]);
  assert.equal(rollout.code, 0, rollout.stderr + rollout.stdout);
  const wide = await cluster.kubectl(["get", "pods", "-n", namespace.name, "-o", "wide"]);
  assert.match(wide.stdout, new RegExp(`1/1 +Running +0 .*10\\.244\\.0\\.7 +${node.name}`));
  const [pod] = [...node.provider.pods.values()];
  assert.ok(pod);
  assert.deepEqual(pod.spec.containers[0]?.env?.find((each) => each.name === "COLOUR")?.value, "red");

  const name = pod.metadata.name ?? "";
  await cluster.kubectl(["annotate", "pod", name, "-n", namespace.name, "note=changed"]);
  await eventually(() => assert.ok(node.provider.calls.includes(`update ${name}`)));
  const selector = `involvedObject.name=${name}`;
  await eventually(async () => {
    const events = await cluster.kubectl([
      "get",
      "events",
      "-n",
      namespace.name,
      "--field-selector",
      selector,
    ]);
    assert.match(events.stdout, /ProviderCreateSuccess/);
  });

  await cluster.kubectl(["delete", "deployment", "web", "-n", namespace.name]);
  await eventually(async () => {
    assert.equal(await jsonPath(cluster, ["pods", "-n", namespace.name], "{.items[*].metadata.name}"), "");
    assert.equal(node.provider.pods.size, 0);
  });
});

test("a provider that fails is called again, with events and status, and others' annotations stay", async () => {
  await using node = await start();
  await using namespace = await cluster.newNamespace();
  node.provider.failCreate = new Fault("unavailable", "no image today");
  await apply(namespace.name, {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: "one", annotations: { kept: "yes" } },
    spec: podSpec(node.name),
  });
  await eventually(async () => {
    assert.equal(
      await jsonPath(cluster, ["pod", "one", "-n", namespace.name], "{.status.reason}"),
      "ProviderFailed",
    );
    assert.match(
      await jsonPath(
        cluster,
        ["pod", "one", "-n", namespace.name],
        "{.status.containerStatuses[0].state.waiting.message}",
      ),
      /no image today/,
    );
  });
  node.provider.failCreate = undefined;
  await eventually(
    async () =>
      assert.equal(
        await jsonPath(cluster, ["pod", "one", "-n", namespace.name], "{.status.phase}{.status.reason}"),
        "Running",
      ),
    { timeoutMs: 60_000 },
  );
  assert.equal(
    await jsonPath(cluster, ["pod", "one", "-n", namespace.name], "{.metadata.annotations.kept}"),
    "yes",
  );
});

test("a pod whose creation takes its time is shown as being created, then as it is", async () => {
  await using node = await start();
  await using namespace = await cluster.newNamespace();
  const { promise, resolve } = Promise.withResolvers<void>();
  node.provider.holdCreate = promise;
  await apply(namespace.name, {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: "slow" },
    spec: podSpec(node.name),
  });
  const shown = async () => (await cluster.kubectl(["get", "pod", "slow", "-n", namespace.name])).stdout;
  await eventually(async () => assert.match(await shown(), /0\/1 +ContainerCreating/));
  resolve();
  await eventually(async () => assert.match(await shown(), /1\/1 +Running/));
});

test("a pod stays until the provider is done with it, also when that fails for a while", async () => {
  await using node = await start();
  await using namespace = await cluster.newNamespace();
  await apply(namespace.name, {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: "one" },
    spec: podSpec(node.name),
  });
  await eventually(() => assert.equal(node.provider.pods.size, 1));
  node.provider.failDelete = new Fault("unavailable", "snapshot not pushed");
  await cluster.kubectl(["delete", "pod", "one", "-n", namespace.name, "--wait=false", "--grace-period=1"]);
  await eventually(() => assert.ok(node.provider.calls.filter((call) => call === "delete one").length > 3));
  assert.notEqual(
    await jsonPath(cluster, ["pod", "one", "-n", namespace.name], "{.metadata.deletionTimestamp}"),
    "",
  );
  node.provider.failDelete = undefined;
  await eventually(
    async () => assert.equal((await cluster.kubectl(["get", "pod", "one", "-n", namespace.name])).code, 1),
    { timeoutMs: 60_000 },
  );
});

test("a missing ConfigMap holds the pod back until it is there", async () => {
  await using node = await start();
  await using namespace = await cluster.newNamespace();
  await apply(namespace.name, {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: "one" },
    spec: podSpec(node.name, { envFrom: [{ configMapRef: { name: "later" } }] }),
  });
  await eventually(async () =>
    assert.match(
      (await cluster.kubectl(["get", "pod", "one", "-n", namespace.name])).stdout,
      /CreateContainerConfigError/,
    ),
  );
  await cluster.kubectl(["create", "configmap", "later", "-n", namespace.name]);
  await eventually(
    async () =>
      assert.equal(
        await jsonPath(cluster, ["pod", "one", "-n", namespace.name], "{.status.phase}"),
        "Running",
      ),
    { timeoutMs: 60_000 },
  );
});

test("what does not fit is refused as a kubelet refuses it", async () => {
  await using node = await start({ cpu: "1" });
  await using namespace = await cluster.newNamespace();
  const spec = { ...podSpec(node.name, { resources: { requests: { cpu: "2" } } }), nodeName: node.name };
  await apply(namespace.name, { apiVersion: "v1", kind: "Pod", metadata: { name: "big" }, spec });
  await eventually(async () => {
    assert.equal(
      await jsonPath(cluster, ["pod", "big", "-n", namespace.name], "{.status.phase} {.status.reason}"),
      "Failed OutOfcpu",
    );
    assert.match(
      await jsonPath(cluster, ["pod", "big", "-n", namespace.name], "{.status.message}"),
      /requested: 2000, used: 0, capacity: 1000/,
    );
  });
  assert.equal(node.provider.pods.size, 0);
});

test("after a restart known pods are kept, and pods that disappeared meanwhile are reported as such", async () => {
  await using namespace = await cluster.newNamespace();
  const provider = new FakeProvider();
  const first = await start({ provider });
  for (const name of ["stays", "disappears"])
    await apply(namespace.name, {
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name },
      spec: podSpec(first.name),
    });
  await eventually(() => assert.equal(provider.pods.size, 2));
  await first[Symbol.asyncDispose]();
  await cluster.kubectl(["delete", "pod", "disappears", "-n", namespace.name, "--grace-period=0", "--force"]);
  provider.calls.length = 0;
  await using _second = await start({ provider, name: first.name });
  await eventually(() => assert.deepEqual([...provider.pods.keys()], [`${namespace.name}/stays`]));
  assert.deepEqual(provider.calls, ["disappeared disappears: unknown"]);
});

test("the node is repaired when it is removed or changed, and reports when the provider is not well", async () => {
  await using node = await start();
  assert.equal(
    await jsonPath(cluster, ["node", node.name], "{.status.declaredFeatures}"),
    '["ExtendWebSocketsToKubelet"]',
  );
  assert.equal(
    await jsonPath(cluster, ["lease", node.name, "-n", "kube-node-lease"], "{.spec.holderIdentity}"),
    node.name,
  );
  const wide = await cluster.kubectl(["get", "node", node.name, "-o", "wide", "--no-headers"]);
  assert.ok(wide.stdout.includes(release()), wide.stdout);
  assert.doesNotMatch(wide.stdout, /<unknown> +<unknown>/);
  await cluster.kubectl(["taint", "node", node.name, `test.io/only=${node.name}:NoSchedule-`]);
  await cluster.kubectl(["label", "node", node.name, "test.io/pool-", "others=stay"]);
  node.kubelet.touchNode();
  await eventually(async () => {
    assert.match(await jsonPath(cluster, ["node", node.name], "{.spec.taints[*].key}"), /test\.io\/only/);
    assert.equal(
      await jsonPath(
        cluster,
        ["node", node.name],
        "{.metadata.labels.test\\.io/pool} {.metadata.labels.others}",
      ),
      `${node.name} stay`,
    );
  });
  node.unhealthy = new Error("hypervisor does not answer");
  node.kubelet.touchNode();
  await eventually(async () =>
    assert.match(
      await jsonPath(cluster, ["node", node.name], '{.status.conditions[?(@.type=="Ready")]}'),
      /hypervisor does not answer/,
    ),
  );
  node.unhealthy = undefined;
  await cluster.kubectl(["delete", "node", node.name]);
  node.kubelet.touchNode();
  await eventually(async () =>
    assert.equal(
      await jsonPath(cluster, ["node", node.name], '{.status.conditions[?(@.type=="Ready")].status}'),
      "True",
    ),
  );
  await node.kubelet.removeNode();
  assert.equal((await cluster.kubectl(["get", "node", node.name])).code, 1);
});

test("a second host with the same node name is refused and leaves the node and its pods alone", async () => {
  await using first = await start({ machineId: "host-a" });
  await using namespace = await cluster.newNamespace();
  await apply(namespace.name, {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: "one" },
    spec: podSpec(first.name),
  });
  await eventually(() => assert.equal(first.provider.pods.size, 1));
  const provider = new FakeProvider();
  await assert.rejects(
    start({ name: first.name, machineId: "host-b", provider }),
    /node name .* is in use by host host-a/,
  );
  assert.deepEqual(provider.calls, []);
  assert.equal(await jsonPath(cluster, ["pod", "one", "-n", namespace.name], "{.status.phase}"), "Running");
});

test("access is refused without rights: no certificate, a wrong CA, a token without rights; a token with rights does", async () => {
  await using node = await start();
  await using namespace = await cluster.newNamespace();
  const call = (options: { key?: string; cert?: string; token?: string }, path = "/pods") =>
    new Promise<number>((resolve, reject) => {
      const { token, ...tls } = options;
      const headers = token ? { authorization: `Bearer ${token}` } : {};
      get(
        `https://127.0.0.1:${node.kubelet.apiPort}${path}`,
        { ...tls, headers, rejectUnauthorized: false, agent: false },
        (answer) => {
          answer.resume();
          resolve(answer.statusCode ?? 0);
        },
      ).on("error", reject);
    });
  assert.equal(await call({}), 401);
  const stranger = await issueCertificate(await createAuthority("stranger"), {
    commonName: "cocoon-admin",
    organizations: ["system:masters"],
    usage: "client",
  });
  assert.equal(await call({ key: stranger.key, cert: stranger.certificate }), 401);
  assert.equal(await call({ token: "nonsense" }), 401);
  const tokenFor = async (account: string) =>
    (await cluster.kubectl(["create", "token", account, "-n", namespace.name])).stdout.trim();
  assert.equal(await call({ token: await tokenFor("default") }), 403);
  await cluster.kubectl(["create", "serviceaccount", "reader", "-n", namespace.name]);
  const binding = `reader-${node.name}`;
  await cluster.kubectl([
    "create",
    "clusterrole",
    binding,
    "--verb=get",
    "--resource=nodes/pods,nodes/proxy",
  ]);
  await cluster.kubectl([
    "create",
    "clusterrolebinding",
    binding,
    `--clusterrole=${binding}`,
    `--serviceaccount=${namespace.name}:reader`,
  ]);
  // A refusal is remembered for a while: the first call must not come before the API server knows of the binding.
  const reader = `--as=system:serviceaccount:${namespace.name}:reader`;
  await eventually(async () => {
    const answer = await cluster.kubectl(["auth", "can-i", "get", "nodes", "--subresource=pods", reader]);
    assert.equal(answer.code, 0, answer.stdout);
  });
  assert.equal(await call({ token: await tokenFor("reader") }), 200);
  assert.equal(
    await call({ token: await tokenFor("reader") }, "/exec/a/b/c?command=id&output=1"),
    403,
    "reading is not running commands",
  );
  await cluster.kubectl(["delete", "clusterrole,clusterrolebinding", binding]);
});
