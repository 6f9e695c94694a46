import assert from "node:assert/strict";
import { test } from "node:test";
import * as z from "zod";
import {
  customResourceDefinitions,
  legacyCustomResourceDefinitions,
  podSnapshotCustomResourceDefinitions,
  sandboxCustomResourceDefinitions,
  structuralSchema,
  type StructuralSchema,
} from "./index.ts";

const definitions = [
  ...customResourceDefinitions(),
  ...legacyCustomResourceDefinitions(),
  ...sandboxCustomResourceDefinitions(),
  ...podSnapshotCustomResourceDefinitions(),
];

function* nodes(schema: StructuralSchema, path: string): Generator<[string, StructuralSchema]> {
  yield [path, schema];
  for (const [name, child] of Object.entries(schema.properties ?? {})) yield* nodes(child, `${path}.${name}`);
  if (schema.items) yield* nodes(schema.items, `${path}[]`);
  if (schema.additionalProperties) yield* nodes(schema.additionalProperties, `${path}{}`);
}

const all = definitions.flatMap((definition) =>
  definition.spec.versions.flatMap((version) => [
    ...nodes(version.schema.openAPIV3Schema, definition.metadata.name),
  ]),
);

test("the kinds are named as promised", () => {
  assert.deepEqual(
    definitions.map((definition) => definition.metadata.name),
    [
      "cocoonsets.cocoonset.cocoonstack.io",
      "cocoonhibernations.cocoonset.cocoonstack.io",
      "cocoonsnapshotgrants.cocoonset.cocoonstack.io",
      "hibernations.cocoon.cis",
      "cocoonsets.cocoon.cis",
      "sandboxes.agents.x-k8s.io",
      "sandboxclaims.extensions.agents.x-k8s.io",
      "sandboxtemplates.extensions.agents.x-k8s.io",
      "sandboxwarmpools.extensions.agents.x-k8s.io",
      "podsnapshots.podsnapshot.gke.io",
      "podsnapshotmanualtriggers.podsnapshot.gke.io",
    ],
  );
});

test("every field has a description that is a sentence", () => {
  const fields = all.filter(
    ([path]) => !path.endsWith(".metadata") && !path.endsWith("[]") && !path.endsWith("{}"),
  );
  assert.ok(fields.length > 150);
  const silent = fields.filter(([, schema]) => !/^[A-Z0-9].*[.]$/.test(schema.description ?? ""));
  assert.deepEqual(
    silent.map(([path]) => path),
    [],
  );
});

test("every field has a type, and every rule a message", () => {
  for (const [path, schema] of all) {
    if (!schema["x-kubernetes-int-or-string"]) assert.ok(schema.type, path);
    const rules = (schema["x-kubernetes-validations"] ?? []) as { rule?: string; message?: string }[];
    for (const rule of rules) assert.ok(rule.rule && rule.message, path);
  }
});

test("additions of ours have no default, so that they stay out of other people's sight", () => {
  const spec = all.find(([path]) => path === "cocoonsets.cocoonset.cocoonstack.io.spec")?.[1];
  const ours = [
    "paused",
    "deletionPolicy",
    "schedule",
    "idle",
    "ttl",
    "expire",
    "retention",
    "warmPool",
    "rollout",
  ];
  for (const name of ours) {
    assert.ok(spec?.properties?.[name], name);
    assert.equal(spec.properties[name].default, undefined, name);
    assert.ok(!spec.required?.includes(name), name);
  }
});

test("numbers, texts and unions take the form Kubernetes wants", () => {
  const schema = structuralSchema(
    z.object({
      count: z.int32().min(1).meta({ format: "int32" }),
      amount: z.union([z.int(), z.string().regex(/^a\/b$/)]).meta({ "x-kubernetes-int-or-string": true }),
      anything: z.looseObject({}).meta({ "x-kubernetes-preserve-unknown-fields": true }).optional(),
    }),
  );
  assert.deepEqual(schema, {
    type: "object",
    required: ["count", "amount"],
    properties: {
      count: { type: "integer", format: "int32", minimum: 1 },
      amount: {
        anyOf: [{ type: "integer" }, { type: "string" }],
        pattern: "^a/b$",
        "x-kubernetes-int-or-string": true,
      },
      anything: { type: "object", "x-kubernetes-preserve-unknown-fields": true },
    },
  });
});

test("what a structural schema cannot say is an error, not a silent loss", () => {
  assert.throws(
    () => structuralSchema(z.object({ either: z.union([z.string(), z.object({})]) })),
    /a structural schema has no anyOf/,
  );
});
