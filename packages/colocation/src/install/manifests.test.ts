import assert from "node:assert/strict";
import { test } from "node:test";
import { startBorder } from "../testing/border.ts";
import { colocationCustomResources } from "./custom-resources.ts";
import { colocationManifests } from "./manifests.ts";
import type { Schema } from "./schema.ts";

function* fields(schema: Schema, path: string): Generator<[string, Schema]> {
  yield [path, schema];
  const properties = (schema["properties"] ?? {}) as Record<string, Schema>;
  for (const [name, each] of Object.entries(properties)) yield* fields(each, `${path}.${name}`);
  if (schema["items"]) yield* fields(schema["items"] as Schema, `${path}[]`);
}

test("every field of every kind is described by a sentence", () => {
  const all = colocationCustomResources().flatMap(({ metadata, spec }) => {
    const versions = spec["versions"] as { schema: { openAPIV3Schema: Schema } }[];
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

test("the SLO configuration that is shipped passes its own webhook", async () => {
  await using border = await startBorder({
    featureGates: "ConfigMapValidatingWebhook=true,SLOConfigStrict=true",
    settings: { configNamespace: "cocoon-colocation" },
  });
  const [object] = colocationManifests()["slo-controller-config.yaml"] ?? [];
  const response = await border.ask("/validate-configmap", { object });
  assert.equal(response.allowed, true, response.status.message ?? "");
});

test("no rule of the rights uses a wildcard", () => {
  for (const manifest of colocationManifests()["rbac.yaml"] ?? []) {
    if (!manifest.kind.endsWith("Role")) continue;
    assert.doesNotMatch(JSON.stringify(manifest).replaceAll("/debug/*", ""), /"\*"/, manifest.metadata.name);
  }
});
