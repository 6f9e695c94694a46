import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { isFault, type FaultCode } from "@cocoon/core";
import {
  configMaps,
  customResourceDefinitions,
  deployments,
  namespaces,
  nodes,
  openKubeClient,
  pods,
  resourceType,
  secrets,
  type KubeConnection,
  type OpenObject,
  type Pod,
} from "@cocoon/kube";
import { eventually, sharedControlPlane, temporaryDirectory } from "@cocoon/testkit";
import { testAuthority } from "../../../packages/kube/src/testing/test-certificates.ts";
import { openClient, readKubeconfig, writeKubeconfig, type Kubeconfig } from "./access.ts";

const { signal } = new AbortController();

async function failsWith(
  promise: Promise<unknown>,
  code: FaultCode,
  ...parts: readonly RegExp[]
): Promise<void> {
  await assert.rejects(promise, (error) => {
    assert.ok(isFault(error, code), `${code} expected: ${String(error)}`);
    for (const part of parts) assert.match(error.message, part);
    return true;
  });
}

function pod(namespace: string, name: string): Pod {
  return {
    metadata: { namespace, name },
    spec: { schedulerName: "none", containers: [{ name: "main", image: "demo" }] },
  };
}

test("objects are created, read, changed by every kind of patch, and deleted under preconditions", async () => {
  const cluster = await sharedControlPlane();
  await using namespace = await cluster.newNamespace();
  await using client = await openClient(cluster);
  const key = { namespace: namespace.name, name: "settings" };
  const made = await client.create(
    configMaps,
    { metadata: key, data: { a: "1" } },
    { signal, fieldManager: "test" },
  );
  assert.equal(made.metadata.managedFields?.length, 1);
  await failsWith(client.create(configMaps, { metadata: key }, { signal }), "alreadyExists", /settings/);

  const replaced = await client.update(configMaps, { ...made, data: { a: "2" } }, { signal });
  assert.notEqual(replaced.metadata.resourceVersion, made.metadata.resourceVersion);
  await failsWith(client.update(configMaps, made, { signal }), "conflict", /has been modified/);
  const dry = await client.update(configMaps, { ...replaced, data: { a: "dry" } }, { signal, dryRun: true });
  assert.equal(dry.data?.["a"], "dry");

  const patch = async (change: Parameters<typeof client.patch>[1]["patch"], fieldManager?: string) =>
    (
      await client.patch(
        configMaps,
        { key, patch: change },
        { signal, ...(fieldManager && { fieldManager }) },
      )
    ).data;
  assert.deepEqual(await patch({ type: "merge", body: { data: { a: null, b: "3" } } }), { b: "3" });
  assert.deepEqual(await patch({ type: "strategic", body: { data: { c: "4" } } }), { b: "3", c: "4" });
  assert.deepEqual(await patch({ type: "json", body: [{ op: "replace", path: "/data/b", value: "5" }] }), {
    b: "5",
    c: "4",
  });
  const test = [{ op: "test", path: "/data/b", value: "x" }] as const;
  await failsWith(patch({ type: "json", body: test }), "invalid");
  const body = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: key.name }, data: { b: "6" } };
  await failsWith(patch({ type: "apply", body }, "applier"), "conflict", /conflict/i);
  assert.deepEqual(await patch({ type: "apply", body, force: true }, "applier"), { b: "6", c: "4" });

  await failsWith(
    client.delete(configMaps, key, { signal, preconditions: { uid: "another" } }),
    "conflict",
    /uid/i,
  );
  const current = await client.get(configMaps, key, { signal });
  assert.equal(current.kind, "ConfigMap");
  await client.delete(configMaps, key, { signal, preconditions: { uid: current.metadata.uid ?? "" } });
  await failsWith(client.get(configMaps, key, { signal }), "notFound", /settings/);
  await failsWith(client.delete(configMaps, key, { signal }), "notFound");
});

test("what is invalid comes back field by field", async () => {
  const cluster = await sharedControlPlane();
  await using namespace = await cluster.newNamespace();
  await using client = await openClient(cluster);
  const bad = { ...pod(namespace.name, "Bad_Name"), spec: { containers: [{ name: "main" }] } };
  await assert.rejects(client.create(pods, bad, { signal }), (error) => {
    assert.ok(isFault(error, "invalid"));
    assert.deepEqual(
      error.causes.map(({ field, reason }) => [field, reason]),
      [
        ["metadata.name", "FieldValueInvalid"],
        ["spec.containers[0].image", "FieldValueRequired"],
      ],
    );
    return true;
  });
});

test("subresources: status, scale, binding, eviction", async () => {
  const cluster = await sharedControlPlane();
  await using namespace = await cluster.newNamespace();
  await using client = await openClient(cluster);
  const key = { namespace: namespace.name, name: "web" };
  const nodeName = `node-${randomBytes(4).toString("hex")}`;
  await client.create(nodes, { metadata: { name: nodeName } }, { signal });
  const made = await client.create(pods, pod(namespace.name, "web"), { signal });
  const target = { apiVersion: "v1", kind: "Node", name: nodeName };
  await client.create(pods, { apiVersion: "v1", kind: "Binding", metadata: key, target } as Pod, {
    signal,
    subresource: "binding",
  });
  const status = { ...made.status, phase: "Running", message: "as said" };
  const patch = { type: "merge", body: { status } } as const;
  const running = await client.patch(pods, { key, patch }, { signal, subresource: "status" });
  assert.equal(running.status?.message, "as said");
  assert.equal(running.spec?.nodeName, nodeName);
  await client.create(
    pods,
    {
      apiVersion: "policy/v1",
      kind: "Eviction",
      metadata: key,
      deleteOptions: { gracePeriodSeconds: 0 },
    } as Pod,
    { signal, subresource: "eviction" },
  );
  await failsWith(client.get(pods, key, { signal }), "notFound");
  await client.delete(nodes, { name: nodeName }, { signal });

  const labels = { app: "x" };
  const template = { metadata: { labels }, spec: { containers: [{ name: "main", image: "demo" }] } };
  const spec = { paused: true, replicas: 1, selector: { matchLabels: labels }, template };
  await client.create(deployments, { metadata: key, spec }, { signal });
  const scale = await client.get(deployments, key, { signal, subresource: "scale" });
  assert.deepEqual([scale.kind, scale.spec?.replicas], ["Scale", 1]);
  const body = { spec: { replicas: 2 } };
  await client.patch(deployments, { key, patch: { type: "merge", body } }, { signal, subresource: "scale" });
  assert.equal((await client.get(deployments, key, { signal })).spec?.replicas, 2);
});

test("custom resources: not served before their definition, then like all others", async () => {
  const cluster = await sharedControlPlane();
  await using namespace = await cluster.newNamespace();
  await using client = await openClient(cluster);
  const group = `t${randomBytes(4).toString("hex")}.example.com`;
  const widgets = resourceType<OpenObject>({
    group,
    version: "v1",
    kind: "Widget",
    plural: "widgets",
    namespaced: true,
  });
  const key = { namespace: namespace.name, name: "one" };
  await failsWith(client.get(widgets, key, { signal }), "unavailable", /does not serve widgets/);
  const schema = { type: "object", "x-kubernetes-preserve-unknown-fields": true };
  const definition = {
    metadata: { name: `widgets.${group}` },
    spec: {
      group,
      scope: "Namespaced",
      names: { plural: "widgets", kind: "Widget" },
      versions: [{ name: "v1", served: true, storage: true, schema: { openAPIV3Schema: schema } }],
    },
  };
  await client.create(customResourceDefinitions, definition, { signal });
  await eventually(() => client.list(widgets, { signal }), { timeoutMs: 60_000 });
  await client.create(widgets, { metadata: key, size: 3 }, { signal });
  const { items } = await client.list(widgets, { signal, namespace: namespace.name });
  assert.deepEqual(
    items.map((item) => [item.apiVersion, item.kind, item["size"]]),
    [[`${group}/v1`, "Widget", 3]],
  );
  await client.delete(customResourceDefinitions, { name: `widgets.${group}` }, { signal });
});

test("lists come in pages and by selectors", async () => {
  const cluster = await sharedControlPlane();
  await using namespace = await cluster.newNamespace();
  await using client = await openClient(cluster);
  const names = Array.from({ length: 23 }, (_value, index) => `map-${String(index).padStart(2, "0")}`);
  await Promise.all(
    names.map((name, index) =>
      client.create(
        configMaps,
        { metadata: { namespace: namespace.name, name, labels: { odd: String(index % 2 === 1) } } },
        { signal },
      ),
    ),
  );
  const sizes: number[] = [];
  const found: string[] = [];
  const options = { signal, namespace: namespace.name, limit: 10, labelSelector: "odd" };
  for await (const page of client.pages(configMaps, options)) {
    sizes.push(page.items.length);
    found.push(...page.items.map((item) => item.metadata.name ?? ""));
  }
  assert.deepEqual(sizes, [10, 10, 3]);
  assert.deepEqual(found.toSorted(), names);
  const odd = await client.list(configMaps, { signal, namespace: namespace.name, labelSelector: "odd=true" });
  assert.equal(odd.items.length, 11);
  const one = await client.list(configMaps, {
    signal,
    namespace: namespace.name,
    fieldSelector: `metadata.name=${names[3]}`,
  });
  assert.equal(one.items.length, 1);
  await failsWith(client.list(configMaps, { signal, labelSelector: "!!" }), "badRequest");
  await failsWith(client.list(configMaps, { signal, limit: 1, continueToken: "junk" }), "badRequest");
});

test("raw requests reach what has no type", async () => {
  const cluster = await sharedControlPlane();
  await using client = await openClient(cluster);
  const version = (await client.raw({ method: "GET", path: "/version", signal })) as { gitVersion: string };
  assert.match(version.gitVersion, /^v1\./);
  assert.equal(await client.raw({ method: "GET", path: "/readyz", signal }), "ok");
  const review = { apiVersion: "authentication.k8s.io/v1", kind: "SelfSubjectReview" };
  const path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
  const who = (await client.raw({ method: "POST", path, body: review, signal })) as {
    status: { userInfo: { groups: string[] } };
  };
  assert.ok(who.status.userInfo.groups.includes("system:masters"));
});

test("a pod's service account: rights are checked, and a rotated token is taken up", async () => {
  const cluster = await sharedControlPlane();
  await using namespace = await cluster.newNamespace();
  await using directory = await temporaryDirectory();
  const config = await readKubeconfig(cluster);
  const ca = String(config.clusters[0]?.cluster["certificate-authority-data"]);
  await writeFile(join(directory.path, "ca.crt"), Buffer.from(ca, "base64"));
  await writeFile(join(directory.path, "namespace"), namespace.name);
  const tokenFile = join(directory.path, "token");
  await writeFile(tokenFile, "not a token any more");
  const { hostname, port } = new URL(cluster.server);
  const environment = {
    homeKubeconfig: "/nonexistent",
    serviceHost: hostname,
    servicePort: port,
    serviceAccountDirectory: directory.path,
  };
  await using client = await openKubeClient({ environment, signal });
  assert.equal(client.target.namespace, namespace.name);
  const look = () => client.list(secrets, { signal, namespace: namespace.name });
  await failsWith(look(), "unauthorized", /does not accept the token in .*token/);
  const token = await cluster.kubectl(["create", "token", "default", "-n", namespace.name]);
  await writeFile(tokenFile, token.stdout);
  await failsWith(
    look(),
    "forbidden",
    /system:serviceaccount:test-\w+:default.*cannot list resource "secrets"/,
  );
});

test("an exec plugin that fetches a token from the cluster", async () => {
  const cluster = await sharedControlPlane();
  await using namespace = await cluster.newNamespace();
  const config = await readKubeconfig(cluster);
  const script =
    `printf '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"%s"}}' ` +
    `"$(${cluster.binaries.kubectl} create token default -n ${namespace.name})"`;
  const env = [{ name: "KUBECONFIG", value: cluster.kubeconfigPath }];
  const exec = { apiVersion: "client.authentication.k8s.io/v1", command: "sh", args: ["-c", script], env };
  config.users = [{ name: "plugin", user: { exec } }];
  for (const each of config.contexts) each.context["user"] = "plugin";
  await using file = await writeKubeconfig(config);
  await using client = await openKubeClient({ kubeconfig: file.path, signal });
  await failsWith(client.list(nodes, { signal }), "forbidden", /serviceaccount/);
});

test("bad access ends with one clear message: expired certificate, wrong CA, unreachable, unknown context", async () => {
  const cluster = await sharedControlPlane();
  const refusedWith = async (change: (config: Kubeconfig) => void, code: FaultCode, part: RegExp) => {
    const config = await readKubeconfig(cluster);
    change(config);
    await using file = await writeKubeconfig(config);
    const attempt = async () => {
      await using client = await openKubeClient({ kubeconfig: file.path, signal });
      return await client.list(namespaces, { signal });
    };
    await failsWith(attempt(), code, part, new RegExp(file.path));
  };
  const cert = await readFile(join(cluster.layout.pki, "ca.crt"), "utf8");
  const key = await readFile(join(cluster.layout.pki, "ca.key"), "utf8");
  const authority = await testAuthority({ cert, key });
  const base64 = (text: string) => Buffer.from(text).toString("base64");
  const userWith = (pair: { cert: string; key: string }) => (config: Kubeconfig) => {
    for (const each of config.users)
      each.user = { "client-certificate-data": base64(pair.cert), "client-key-data": base64(pair.key) };
  };
  const subject = "O=system:masters, CN=admin";
  const expired = await authority.issue(subject, { expired: true });
  await refusedWith(
    userWith(expired),
    "unauthorized",
    /client-certificate-data .* expired at 20\S+; renew it/,
  );
  const stranger = await (await testAuthority()).issue(subject);
  await refusedWith(userWith(stranger), "unauthorized", /does not accept the client certificate in users\[/);
  const otherCa = (await testAuthority()).ca;
  const clusterWith = (fields: Record<string, unknown>) => (config: Kubeconfig) => {
    for (const each of config.clusters) Object.assign(each.cluster, fields);
  };
  await refusedWith(
    clusterWith({ "certificate-authority-data": base64(otherCa) }),
    "unavailable",
    /not signed by the CA in clusters\[.*\]\.cluster\.certificate-authority-data/,
  );
  await refusedWith(clusterWith({ server: "https://127.0.0.1:1" }), "unavailable", /connection refused/);
  await refusedWith(
    (config) => (config["current-context"] = "nowhere"),
    "invalid",
    /has no context "nowhere"; it has: /,
  );
});

test("hundreds of writes at once are limited by nothing on our side", async () => {
  const cluster = await sharedControlPlane();
  await using namespace = await cluster.newNamespace();
  await using client: KubeConnection = await openClient(cluster);
  const names = Array.from({ length: 300 }, (_value, index) => `map-${index}`);
  await Promise.all(
    names.map((name) =>
      client.create(configMaps, { metadata: { namespace: namespace.name, name } }, { signal }),
    ),
  );
  const { items } = await client.list(configMaps, { signal, namespace: namespace.name });
  assert.equal(items.filter((item) => item.metadata.name?.startsWith("map-")).length, 300);
});
