import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import type { Container } from "@cocoon/kube";
import type { Pod } from "../provider.ts";
import {
  expandReferences,
  MissingEnvironment,
  resolveEnvironment,
  type EnvironmentSources,
} from "./resolve.ts";

function podWith(container: Partial<Container>): Pod {
  return {
    metadata: {
      name: "p",
      namespace: "ns",
      uid: "u-1",
      labels: { b: "2", a: 'say "x"' },
      annotations: { "x.io/y": "z" },
    },
    spec: {
      nodeName: "n1",
      serviceAccountName: "sa",
      containers: [{ name: "main", ...container }, { name: "side" }],
    },
    status: { hostIP: "10.0.0.1", podIP: "10.1.0.1", podIPs: [{ ip: "10.1.0.1" }, { ip: "fd00::1" }] },
  };
}

const objects: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  settings: { COLOUR: "red", "bad=name": "x", SIZE: "9" },
  more: { COLOUR: "blue" },
};

const sources: EnvironmentSources = {
  configMap: (name) => Promise.resolve(objects[name] ?? "missing"),
  secret: (name) => Promise.resolve(name === "password" ? { key: "hunter2" } : "missing"),
  services: [
    {
      metadata: { name: "my-db" },
      spec: { clusterIP: "10.0.0.9", ports: [{ name: "sql-tcp", port: 5432 }] },
    },
    { metadata: { name: "headless" }, spec: { clusterIP: "None", ports: [{ port: 1 }] } },
  ],
  allocatable: { cpu: "8", memory: "16Gi" },
};

async function resolveVariables(
  container: Partial<Container>,
  from: EnvironmentSources = sources,
): Promise<Readonly<Record<string, string | undefined>>> {
  const { pod } = await resolveEnvironment(podWith(container), from);
  return Object.fromEntries((pod.spec.containers[0]?.env ?? []).map(({ name, value }) => [name, value]));
}

test("sources in order, later ones win, env over envFrom, references to what came before", async () => {
  const env = await resolveVariables({
    envFrom: [
      { configMapRef: { name: "settings" } },
      { prefix: "P_", configMapRef: { name: "more" } },
      { configMapRef: { name: "more" } },
    ],
    env: [
      { name: "SIZE", value: "10" },
      { name: "TEXT", value: "$(COLOUR) $(SIZE) $(MY_DB_SERVICE_HOST) $(UNKNOWN) $$(COLOUR)" },
    ],
  });
  assert.equal(env["COLOUR"], "blue");
  assert.equal(env["P_COLOUR"], "blue");
  assert.equal(env["SIZE"], "10");
  assert.equal(env["TEXT"], "blue 10 10.0.0.9 $(UNKNOWN) $(COLOUR)");
  assert.equal(env["MY_DB_PORT_5432_TCP_ADDR"], "10.0.0.9");
  assert.equal(env["MY_DB_SERVICE_PORT_SQL_TCP"], "5432");
  assert.ok(!Object.keys(env).some((name) => name.startsWith("HEADLESS")));
});

test("fields and resources of the pod", async () => {
  const field = (fieldPath: string) => ({
    name: fieldPath.replaceAll(/\W/g, "_"),
    valueFrom: { fieldRef: { fieldPath } },
  });
  const resource = (name: string, resourceFieldRef: { resource: string; divisor?: string }) => ({
    name,
    valueFrom: { resourceFieldRef },
  });
  const env = await resolveVariables({
    resources: { limits: { cpu: "250m" }, requests: { memory: "100Mi" } },
    env: [
      field("metadata.labels"),
      field("metadata.annotations['x.io/y']"),
      field("status.podIPs"),
      field("spec.nodeName"),
      resource("CPU", { resource: "limits.cpu" }),
      resource("CPU_MILLIS", { resource: "limits.cpu", divisor: "1m" }),
      resource("MEMORY", { resource: "requests.memory", divisor: "1Mi" }),
      resource("MEMORY_LIMIT", { resource: "limits.memory", divisor: "1Gi" }),
    ],
  });
  assert.equal(env["metadata_labels"], 'a="say \\"x\\""\nb="2"');
  assert.equal(env["metadata_annotations__x_io_y__"], "z");
  assert.equal(env["status_podIPs"], "10.1.0.1,fd00::1");
  assert.equal(env["spec_nodeName"], "n1");
  assert.deepEqual(
    [env["CPU"], env["CPU_MILLIS"], env["MEMORY"], env["MEMORY_LIMIT"]],
    ["1", "250", "100", "16"],
  );
  await assert.rejects(
    resolveVariables({ env: [field("spec.hostname")] }),
    /"spec\.hostname" is not supported/,
  );
});

test("what is missing and mandatory holds the pod back, what is optional is noted", async () => {
  const cases = [
    [{ envFrom: [{ configMapRef: { name: "none" } }] }, "MandatoryConfigMapNotFound"],
    [{ envFrom: [{ secretRef: { name: "none" } }] }, "MandatorySecretNotFound"],
    [
      { env: [{ name: "A", valueFrom: { secretKeyRef: { name: "password", key: "none" } } }] },
      "MandatorySecretKeyNotFound",
    ],
    [
      { env: [{ name: "A", valueFrom: { configMapKeyRef: { name: "settings", key: "none" } } }] },
      "MandatoryConfigMapKeyNotFound",
    ],
  ] as const;
  for (const [container, reason] of cases) {
    await assert.rejects(
      resolveVariables(container),
      (error) => error instanceof MissingEnvironment && error.reason === reason,
    );
  }
  const { pod, notices } = await resolveEnvironment(
    podWith({
      envFrom: [{ configMapRef: { name: "none", optional: true } }, { configMapRef: { name: "settings" } }],
      env: [
        { name: "A", valueFrom: { secretKeyRef: { name: "none", key: "k", optional: true } } },
        { name: "B", valueFrom: { secretKeyRef: { name: "password", key: "key" } } },
      ],
    }),
    sources,
  );
  assert.deepEqual(
    notices.map((notice) => notice.reason),
    ["OptionalConfigMapNotFound", "InvalidEnvironmentVariableNames", "OptionalSecretNotFound"],
  );
  assert.equal(pod.spec.containers[0]?.env?.find((each) => each.name === "B")?.value, "hunter2");
  assert.equal(pod.spec.containers[0]?.envFrom, undefined);
});

test("a source that does not answer is not one that is missing", async () => {
  const down: EnvironmentSources = { ...sources, configMap: () => Promise.reject(new Error("no answer")) };
  await assert.rejects(
    resolveVariables({ envFrom: [{ configMapRef: { name: "settings", optional: true } }] }, down),
    /no answer/,
  );
});

test("text without references is left alone, and a doubled dollar is one", () => {
  fc.assert(
    fc.property(fc.string(), (text) => {
      const plain = text.replaceAll("$", "");
      assert.equal(
        expandReferences(plain, () => "never"),
        plain,
      );
      assert.equal(
        expandReferences(text.replaceAll("$", "$$$$"), () => "never"),
        text,
      );
    }),
  );
});
