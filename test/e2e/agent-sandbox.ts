/** agent-sandbox on a platform that serves it, as its Python SDK uses it: the program from PyPI, unchanged. */
import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { clusterLayout } from "@cocoon/controlplane";
import { lastLines } from "@cocoon/core";
import { ensurePythonPackage, eventually, runCommand, tier } from "@cocoon/testkit";
import { convergeMs, type Platform } from "./platform.ts";

const sdkVersion = "1.0.8";
const name = "sdk";
const extensions = "extensions.agents.x-k8s.io/v1beta1";

/** A pool, and a user that may use its Sandboxes and nothing else. */
const objects = [
  {
    apiVersion: extensions,
    kind: "SandboxTemplate",
    metadata: { name },
    spec: {
      envVarsInjectionPolicy: "Allowed",
      podTemplate: { spec: { containers: [{ name: "agent", image: "cocoon-demo" }] } },
    },
  },
  {
    apiVersion: extensions,
    kind: "SandboxWarmPool",
    metadata: { name },
    spec: { replicas: 1, sandboxTemplateRef: { name } },
  },
  { apiVersion: "v1", kind: "ServiceAccount", metadata: { name } },
  {
    apiVersion: "rbac.authorization.k8s.io/v1",
    kind: "Role",
    metadata: { name },
    rules: [{ apiGroups: ["agents.x-k8s.io"], resources: ["sandboxes"], verbs: ["patch"] }],
  },
  {
    apiVersion: "rbac.authorization.k8s.io/v1",
    kind: "RoleBinding",
    metadata: { name },
    roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "Role", name },
    subjects: [{ kind: "ServiceAccount", name, namespace: "default" }],
  },
];

/** With all of the SDK in the full tier. What it made is gone afterwards. */
export async function usePythonSdk({ home, kubectl }: Platform, routerUrl: string): Promise<void> {
  const python = await ensurePythonPackage("k8s-agent-sandbox", sdkVersion);
  const file = join(dirname(home), "sdk.json");
  await writeFile(file, JSON.stringify({ apiVersion: "v1", kind: "List", items: objects }));
  await kubectl("apply", "-f", file);
  const env = {
    KUBECONFIG: clusterLayout(home).kubeconfig,
    ROUTER_URL: routerUrl,
    ROUTER_TOKEN: (await kubectl("create", "token", name)).trim(),
    POOL: name,
  };
  const script = join(import.meta.dirname, "agent-sandbox-sdk.py");
  const ran = await runCommand(python, [script, tier()], { env, timeoutMs: 20 * 60_000 });
  const failures = lastLines(join(home, "logs", "gateway.log"), 20).filter((line) => line.includes("failed"));
  assert.equal(ran.stdout, "ok\n", [ran.stderr, ...failures].join("\n"));
  await kubectl("delete", "-f", file, "--wait=true", `--timeout=${convergeMs}ms`);
  await eventually(async () => assert.equal(await kubectl("get", "sandboxes", "-o", "name"), ""), {
    timeoutMs: convergeMs,
    intervalMs: 500,
  });
}
