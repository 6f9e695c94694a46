import assert from "node:assert/strict";
import { test } from "node:test";
import type { KubeObject } from "@cocoon/kube";
import { documentedGates } from "./gates.ts";
import { controlPlaneLabel } from "./keys.ts";
import { elasticQuotaProfiles, elasticQuotas, profiles, reservations } from "./kinds.ts";
import { readDefinitions, readManifests } from "./testing/manifests.ts";
import { startTestWebhooks } from "./testing/webhook-server.ts";

interface Schema {
  readonly description?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
}

function* fields(schema: Schema, path: string): Generator<[string, Schema]> {
  yield [path, schema];
  for (const [name, each] of Object.entries(schema.properties ?? {})) yield* fields(each, `${path}.${name}`);
  if (schema.items) yield* fields(schema.items, `${path}[]`);
}

test("every field of every kind is described by a sentence", () => {
  const all = readDefinitions().flatMap(({ metadata, spec }) => {
    const versions = (spec?.versions ?? []) as unknown as { schema: { openAPIV3Schema: Schema } }[];
    return versions.flatMap(({ schema }) => [...fields(schema.openAPIV3Schema, metadata.name)]);
  });
  const described = all.filter(([path]) => !path.endsWith(".metadata") && !path.endsWith("[]"));
  assert.ok(described.length > 80);
  const silent = described.filter(([, { description }]) => !/^[A-Z].*[.]$/.test(description ?? ""));
  assert.deepEqual(
    silent.map(([path]) => path),
    [],
  );
});

test("the definitions are those of the kinds that the rules read", () => {
  const shipped = readDefinitions().map(({ metadata, spec }) => ({
    name: metadata.name,
    kind: spec?.names.kind,
    scope: spec?.scope,
    versions: spec?.versions?.map(({ name }) => name),
  }));
  const read = [profiles, elasticQuotas, elasticQuotaProfiles, reservations].map((type) => ({
    name: `${type.plural}.${type.group}`,
    kind: type.kind,
    scope: type.namespaced ? "Namespaced" : "Cluster",
    versions: [type.version],
  }));
  const byName = (left: { name: string }, right: { name: string }) => (left.name < right.name ? -1 : 1);
  assert.deepEqual(shipped.toSorted(byName), read.toSorted(byName));
});

test("the Deployment turns the documented gates on, and its namespace is left alone by the pod webhooks", () => {
  const deployment = readManifests("deployment.yaml").find(({ kind }) => kind === "Deployment");
  const gates = documentedGates.map((gate) => `${gate}=true`).join(",");
  assert.ok(JSON.stringify(deployment).includes(`"--feature-gates=${gates}"`));
  const [namespace] = readManifests("namespace.yaml");
  assert.ok(namespace?.metadata.labels?.[controlPlaneLabel]);
});

test("the SLO configuration that is shipped passes its own webhook", async () => {
  await using webhooks = await startTestWebhooks({
    featureGates: "ConfigMapValidatingWebhook=true,SLOConfigStrict=true",
    settings: { configNamespace: "cocoon-colocation" },
  });
  const [object] = readManifests("slo-controller-config.yaml");
  const response = await webhooks.ask("/validate-configmap", { object });
  assert.equal(response.allowed, true, response.status.message ?? "");
});

test("no rule of the rights uses a wildcard", () => {
  for (const manifest of readManifests<KubeObject>("rbac.yaml")) {
    if (!manifest.kind?.endsWith("Role")) continue;
    assert.doesNotMatch(JSON.stringify(manifest).replaceAll("/debug/*", ""), /"\*"/);
  }
});
