/** Strategic merge patches of a pod template: the API server's own against ours. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { podTemplateSchema, strategicMerge } from "@cocoon/colocation";
import { resourceType, type KubeObject } from "@cocoon/kube";
import { signal, type ColocationCluster } from "./cluster.ts";

type Json = Record<string, unknown>;

/** Registers the test in the suite that owns the cluster. */
export function compareStrategicMerges(world: () => ColocationCluster): void {
  test("strategic merge patches give what the API server's own give", async () => {
    const { client, cluster } = world();
    await using namespace = await cluster.newNamespace();
    const podTemplates = resourceType<KubeObject & { template?: Json }>({
      group: "",
      version: "v1",
      kind: "PodTemplate",
      plural: "podtemplates",
      namespaced: true,
    });
    const template = {
      metadata: { labels: { app: "x", tier: "y" }, finalizers: ["a.example/x", "b.example/x"] },
      spec: {
        containers: [
          {
            name: "main",
            image: "one",
            env: [
              { name: "A", value: "1" },
              { name: "B", value: "2" },
            ],
            ports: [{ containerPort: 80 }, { containerPort: 443 }],
            volumeMounts: [{ name: "v", mountPath: "/v" }],
            args: ["a", "b"],
          },
          { name: "side", image: "two" },
        ],
        initContainers: [{ name: "init", image: "three" }],
        volumes: [
          { name: "v", emptyDir: {} },
          { name: "w", emptyDir: { medium: "Memory" } },
        ],
        tolerations: [{ key: "a", operator: "Exists" }],
        hostAliases: [{ ip: "10.0.0.1", hostnames: ["a"] }],
        imagePullSecrets: [{ name: "s1" }],
        nodeSelector: { a: "1" },
      },
    };
    const made = await client.create(
      podTemplates,
      { metadata: { name: "t", namespace: namespace.name }, template },
      { signal },
    );
    const stored = made.template as Json;
    for (const [index, patch] of templatePatches.entries()) {
      const target = {
        key: { name: "t", namespace: namespace.name },
        patch: { type: "strategic", body: { template: patch } } as const,
      };
      const theirs = await client.patch(podTemplates, target, { signal, dryRun: true });
      const ours = strategicMerge(structuredClone(stored), structuredClone(patch), podTemplateSchema);
      // The server fills in defaults: ours goes through them as well.
      const filled = await client.update(podTemplates, { ...made, template: ours }, { signal, dryRun: true });
      assert.deepEqual(filled.template, theirs.template, `patch ${index}: ${JSON.stringify(patch)}`);
    }
  });
}

const templatePatches: readonly Json[] = [
  { metadata: { labels: { tier: null, more: "z" } } },
  { metadata: { "$deleteFromPrimitiveList/finalizers": ["a.example/x"] } },
  { metadata: { finalizers: ["c.example/x", "a.example/x"] } },
  {
    spec: {
      containers: [
        {
          name: "main",
          image: "new",
          env: [
            { name: "C", value: "3" },
            { name: "A", value: "9" },
          ],
        },
      ],
    },
  },
  { spec: { containers: [{ name: "third", image: "x" }] } },
  {
    spec: {
      containers: [
        { name: "third", image: "x" },
        { name: "side", image: "y" },
      ],
    },
  },
  { spec: { containers: [{ name: "side", $patch: "delete" }] } },
  { spec: { containers: [{ $patch: "replace" }, { name: "only", image: "x" }] } },
  {
    spec: {
      containers: [
        { name: "main", ports: [{ containerPort: 443, $patch: "delete" }, { containerPort: 8080 }] },
      ],
    },
  },
  { spec: { containers: [{ name: "main", env: null, args: ["c"] }] } },
  { spec: { "$setElementOrder/containers": [{ name: "side" }, { name: "main" }] } },
  {
    spec: {
      "$setElementOrder/containers": [{ name: "side" }, { name: "new" }, { name: "main" }],
      containers: [{ name: "new", image: "n" }],
    },
  },
  { spec: { volumes: [{ name: "w", $retainKeys: ["name", "configMap"], configMap: { name: "c" } }] } },
  { spec: { volumes: [{ name: "w", emptyDir: null, configMap: { name: "c" } }] } },
  { spec: { tolerations: [{ key: "b", operator: "Exists" }] } },
  {
    spec: {
      hostAliases: [
        { ip: "10.0.0.2", hostnames: ["b"] },
        { ip: "10.0.0.1", hostnames: ["c"] },
      ],
    },
  },
  { spec: { nodeSelector: { $patch: "replace", b: "2" } } },
  { spec: { nodeSelector: { $patch: "delete" } } },
  {
    spec: {
      affinity: {
        nodeAffinity: {
          preferredDuringSchedulingIgnoredDuringExecution: [
            { weight: 1, preference: { matchExpressions: [{ key: "a", operator: "Exists" }] } },
          ],
        },
      },
    },
  },
  {
    spec: {
      initContainers: [
        { name: "init", resources: { limits: { cpu: "1" } }, env: [{ name: "X", value: null }] },
      ],
    },
  },
  {
    spec: {
      imagePullSecrets: [{ name: "s0" }, { name: "s2" }],
      schedulerName: "other",
      terminationGracePeriodSeconds: 5,
    },
  },
];
