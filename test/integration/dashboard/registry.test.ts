/** The dashboard beside a real registry: who sees what of it. */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { test } from "node:test";
import { anchorTag, hibernateTag, latestTag } from "@cocoon/contract";
import { customResourceDefinitions } from "@cocoon/contract/crd";
import { eventually, sharedControlPlane, type TestCluster } from "@cocoon/testkit";
import type { RegistryData, SnapshotRow } from "../../../packages/dashboard/src/shared/rows.ts";
import { createUser, startTestDashboard, TestBrowser } from "./browser.ts";
import { startWorld, type Client, type ImageManifest } from "../registry/world.ts";

test("a set's snapshots are for who may read the set, the whole registry for who may read metrics", async (t) => {
  const cluster = await sharedControlPlane();
  await apply(cluster, { apiVersion: "v1", kind: "List", items: customResourceDefinitions() });
  await using namespace = await cluster.newNamespace();
  await using world = await startWorld();
  const { client, registry } = world;
  const machine = `vk-${namespace.name}-one-0`;
  const layer = randomBytes(10_000);
  await pushSharing(client, layer, [`${machine}:${latestTag}`, `${machine}:${anchorTag}`]);
  const toolbox = `vk-${namespace.name}-one-tools`;
  await pushSharing(client, layer, [`vk-other-two-0:${hibernateTag}`, `${toolbox}:${latestTag}`]);
  await apply(cluster, {
    apiVersion: "cocoonset.cocoonstack.io/v1",
    kind: "CocoonSet",
    metadata: { namespace: namespace.name, name: "one" },
    spec: { agent: { image: "cocoon-demo" }, toolboxes: [{ name: "tools", image: "cocoon-demo" }] },
  });
  const [reader, stranger] = await Promise.all([
    createUser(cluster, {
      namespace: namespace.name,
      name: "reader",
      rules: [["get,list", "cocoonsets.cocoonset.cocoonstack.io"]],
    }),
    createUser(cluster, { namespace: namespace.name, name: "stranger", rules: [] }),
  ]);
  const token = await registry.createToken({
    name: "dashboard",
    scopes: ["repository:*:pull", "registry:catalog:*", "registry:tokens:list"],
  });
  const args = ["--registry", registry.url, "--registry-token", token];
  await using dashboard = await startTestDashboard({ cluster, signal: t.signal, args });
  const open = async (token: string) => {
    const browser = new TestBrowser(dashboard.url);
    await browser.signIn(token);
    return browser;
  };
  const path = `/api/snapshots?namespace=${namespace.name}&set=one`;
  const reading = await open(reader);
  const rows = (await (await reading.send(path)).json()) as SnapshotRow[];
  assert.deepEqual(
    rows.map(({ machine: name, tag }) => `${name}:${tag}`).sort(),
    ["one-0:latest", "one-tools:latest"],
    "and not what cannot be restored",
  );
  assert.equal((await reading.send(`/api/snapshots?namespace=${namespace.name}&set=../one`)).status, 400);
  assert.equal((await reading.send("/api/registry")).status, 403);
  const other = await open(stranger);
  assert.equal((await other.send(path)).status, 403);

  const bound = `metrics-${namespace.name}`;
  const rule = await cluster.kubectl([
    "create",
    "clusterrole",
    bound,
    "--verb=get",
    "--non-resource-url=/metrics",
  ]);
  assert.equal(rule.code, 0, rule.stderr);
  await cluster.kubectl([
    "create",
    "clusterrolebinding",
    bound,
    `--clusterrole=${bound}`,
    `--serviceaccount=${namespace.name}:reader`,
  ]);
  // Rights reach the API server's own cache a moment after they were written.
  const all = await eventually(
    async () => {
      const answer = await reading.send("/api/registry");
      assert.equal(answer.status, 200, await answer.clone().text());
      return (await answer.json()) as RegistryData;
    },
    { timeoutMs: 20_000 },
  );
  assert.deepEqual(
    all.repositories.map(({ name }) => name).sort(),
    [machine, toolbox, "vk-other-two-0"].sort(),
  );
  assert.ok(all.storedBytes > 0 && all.storedBytes < all.totalBytes, "what is shared is stored once");
  const listed = all.tokens?.find(({ name }) => name === "dashboard");
  assert.deepEqual(listed?.scopes, ["repository:*:pull", "registry:catalog:*", "registry:tokens:list"]);
  assert.doesNotMatch(JSON.stringify(all.tokens), new RegExp(token), "names and rights, never the secret");
  await cluster.kubectl(["delete", "clusterrole,clusterrolebinding", bound]);
});

async function apply(cluster: TestCluster, object: unknown): Promise<void> {
  const made = await cluster.kubectl(["apply", "--server-side", "--force-conflicts", "-f", "-"], {
    input: JSON.stringify(object),
  });
  assert.equal(made.code, 0, made.stderr);
}

/** Images that have one layer in common, under these names and tags. */
async function pushSharing(client: Client, layer: Buffer, references: readonly string[]): Promise<void> {
  for (const reference of references) {
    const [name = "", tag = ""] = reference.split(":");
    const own: ImageManifest = await client.newImage(name, 100);
    const shared = { ...own.layers[0], digest: await client.pushBlob(name, layer), size: layer.length };
    const answer = await client.pushManifest(name, tag, { ...own, layers: [...own.layers, shared] });
    assert.equal(answer.status, 201, answer.body.toString());
  }
}
