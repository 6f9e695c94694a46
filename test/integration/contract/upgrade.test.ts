/**
 * Objects that were stored before a rule existed. They must stay editable in everything the rule is not about, above all
 * in their finalizers: otherwise they could not be deleted any more.
 */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { test } from "node:test";
import { customResourceDefinitions, type CustomResourceDefinition } from "@cocoon/contract/crd";
import { eventually, sharedControlPlane, type TestCluster } from "@cocoon/testkit";
import { openApi, type Api } from "./api.ts";

/** The same definition under another group, so that the cluster's own stays untouched. */
function regrouped(definition: CustomResourceDefinition, group: string): CustomResourceDefinition {
  const { singular, ...names } = definition.spec["names"] as { singular: string; plural: string };
  return {
    ...definition,
    metadata: { name: `${names.plural}.${group}` },
    spec: { ...definition.spec, group, names: { ...names, singular, shortNames: [], categories: [] } },
  };
}

function withoutRules(definition: CustomResourceDefinition): CustomResourceDefinition {
  const anything = { type: "object", "x-kubernetes-preserve-unknown-fields": true } as const;
  return {
    ...definition,
    spec: {
      ...definition.spec,
      versions: definition.spec.versions.map((version) => ({
        ...version,
        schema: { openAPIV3Schema: anything },
      })),
    },
  };
}

async function install(cluster: TestCluster, definition: CustomResourceDefinition): Promise<void> {
  const applied = await cluster.kubectl(["apply", "--server-side", "--force-conflicts", "-f", "-"], {
    input: JSON.stringify(definition),
  });
  assert.equal(applied.code, 0, applied.stderr);
  const wait = ["wait", "--for=condition=Established", "--timeout=60s", `crd/${definition.metadata.name}`];
  const established = await cluster.kubectl(wait);
  assert.equal(established.code, 0, established.stderr);
}

const box = { name: "box", image: "x" };
const outdated: Readonly<Record<string, unknown>> = {
  "no-spec": undefined,
  "no-image": { agent: {} },
  "no-agent": {},
  "same-toolboxes": { agent: { image: "x" }, toolboxes: [box, box] },
  "numeric-toolbox": { agent: { image: "x" }, toolboxes: [{ ...box, name: "7" }] },
  "static-without-address": { agent: { image: "x" }, toolboxes: [{ name: "box", mode: "static" }] },
  "other-backend": { agent: { image: "x" }, toolboxes: [{ ...box, backend: "firecracker" }] },
  "clone-from-port": { agent: { image: "registry:5000/x" } },
  "released-with-replicas": { hibernatePolicy: "release", agent: { image: "x", replicas: 2 } },
  "unknown-policy": { snapshotPolicy: "sometimes", agent: { image: "x" } },
};

/** What the Go definitions and the Go webhook take: such a set can be suspended and scaled, too. */
const storedByGo: Readonly<Record<string, unknown>> = {
  "storage-zero": { agent: { image: "x", storage: "0" } },
  "odd-address": {
    agent: { image: "x" },
    toolboxes: [{ name: "box", mode: "static", staticIP: "no", staticVMID: "v" }],
  },
  "long-image": { agent: { image: `team/${"a".repeat(2_100)}` } },
  "odd-pool": { nodePool: "a b", agent: { image: "x" } },
  [`long-${"n".repeat(70)}`]: { agent: { image: "x" } },
};

async function merge(api: Api, path: string, body: unknown) {
  return api.call({ method: "PATCH", path, body, contentType: "application/merge-patch+json" });
}

test("objects from before a rule can still be labelled, suspended, scaled, released and deleted", async () => {
  const cluster = await sharedControlPlane();
  await using namespace = await cluster.newNamespace();
  using api = openApi(cluster);
  const group = `x${randomBytes(4).toString("hex")}.cocoonset.test`;
  const [current] = customResourceDefinitions();
  assert.ok(current);
  const strict = regrouped(current, group);
  await install(cluster, withoutRules(strict));
  const collection = `/apis/${group}/v1/namespaces/${namespace.name}/cocoonsets`;
  try {
    for (const [name, spec] of Object.entries({ ...outdated, ...storedByGo })) {
      const metadata = { name, finalizers: [`${group}/keep`] };
      const body = { apiVersion: `${group}/v1`, kind: "CocoonSet", metadata, spec };
      const created = await api.call({ method: "POST", path: collection, body });
      assert.equal(created.status, 201, `${name}: ${created.message}`);
    }
    await install(cluster, strict);
    await eventually(async () => {
      const body = { apiVersion: `${group}/v1`, kind: "CocoonSet", metadata: { name: "probe" } };
      const answer = await api.call({ method: "POST", path: `${collection}?dryRun=All`, body });
      assert.equal(answer.status, 422, "the rules are in force");
    });
    for (const name of Object.keys(storedByGo)) {
      const changes = [{ suspend: true }, { agent: { replicas: 1 } }, { suspend: false }];
      for (const spec of changes) {
        const changed = await merge(api, `${collection}/${name}`, { spec });
        assert.equal(changed.status, 200, `${JSON.stringify(spec)} ${name}: ${changed.message}`);
      }
    }
    for (const name of Object.keys({ ...outdated, ...storedByGo })) {
      const path = `${collection}/${name}`;
      const labelled = await merge(api, path, { metadata: { labels: { seen: "yes" } } });
      assert.equal(labelled.status, 200, `label ${name}: ${labelled.message}`);
      const suspended = await merge(api, path, {
        spec: { agent: { image: "registry:5000/other", replicas: -1 } },
      });
      assert.equal(suspended.status, 422, `${name} must not get worse`);
      const deleted = await api.call({ method: "DELETE", path });
      assert.equal(deleted.status, 200, `delete ${name}: ${deleted.message}`);
      const released = await merge(api, path, { metadata: { finalizers: [] } });
      assert.equal(released.status, 200, `release ${name}: ${released.message}`);
      assert.equal((await api.call({ method: "GET", path })).status, 404, `${name} is gone`);
    }
  } finally {
    await cluster.kubectl(["delete", "crd", strict.metadata.name, "--wait=false"]);
  }
});
