/** A Node object whose kubelet API is ours, and a pod on it, without a pod controller: streams only. */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import { issueCertificate } from "@cocoon/controlplane";
import { silentLogger } from "@cocoon/core";
import { startKubeletApi } from "@cocoon/kubelet";
import type { TestCluster, TestNamespace } from "@cocoon/testkit";
import { ShellProvider } from "./shell-provider.ts";

export interface TestNode extends AsyncDisposable {
  readonly name: string;
  readonly provider: ShellProvider;
  readonly port: number;
  /** Upgrade requests as they arrived: method, and what they wanted to become. */
  readonly upgrades: string[];
  declareWebSockets(yes: boolean): Promise<void>;
  newPod(namespace: TestNamespace): Promise<string>;
}

export async function startTestNode(cluster: TestCluster): Promise<TestNode> {
  const { layout } = cluster;
  const name = `node-${randomBytes(4).toString("hex")}`;
  const [certificate, key] = await Promise.all([
    readFile(`${layout.pki}/ca.crt`, "utf8"),
    readFile(`${layout.pki}/ca.key`, "utf8"),
  ]);
  const serving = await issueCertificate(
    { certificate, key },
    { commonName: name, usage: "server", hosts: ["127.0.0.1"] },
  );
  const provider = new ShellProvider();
  const server = await startKubeletApi({
    host: "127.0.0.1",
    port: 0,
    tls: { cert: serving.certificate, key: serving.key, ca: certificate },
    provider,
    authenticate: (request) =>
      Promise.resolve(
        request.socket && "authorized" in request.socket && request.socket.authorized
          ? { name: "kube-apiserver", groups: [] }
          : undefined,
      ),
    authorize: () => Promise.resolve(undefined),
    assignedPods: () => [],
    log: silentLogger,
  });
  const upgrades: string[] = [];
  server.server.prependListener(
    "upgrade",
    (request: { method?: string; headers: Record<string, string | undefined> }) => {
      upgrades.push(`${request.method} ${request.headers["upgrade"]}`);
    },
  );
  const apply = async (object: unknown) => {
    const made = await cluster.kubectl(["create", "-f", "-"], { input: JSON.stringify(object) });
    assert.equal(made.code, 0, made.stderr);
  };
  await apply({
    apiVersion: "v1",
    kind: "Node",
    metadata: { name },
    status: {
      addresses: [{ type: "InternalIP", address: "127.0.0.1" }],
      daemonEndpoints: { kubeletEndpoint: { Port: server.port } },
      conditions: [{ type: "Ready", status: "True" }],
      allocatable: { cpu: "8", memory: "8Gi", pods: "10" },
      capacity: { cpu: "8", memory: "8Gi", pods: "10" },
    },
  });
  const patchStatus = async (args: readonly string[], status: unknown) => {
    const patched = await cluster.kubectl([
      "patch",
      ...args,
      "--subresource=status",
      "--type=merge",
      "-p",
      JSON.stringify({ status }),
    ]);
    assert.equal(patched.code, 0, patched.stderr);
  };
  return {
    name,
    provider,
    upgrades,
    port: server.port,
    declareWebSockets: (yes) =>
      patchStatus(["node", name], { declaredFeatures: yes ? ["ExtendWebSocketsToKubelet"] : null }),
    newPod: async (namespace) => {
      const pod = `pod-${randomBytes(4).toString("hex")}`;
      const spec = {
        nodeName: name,
        tolerations: [{ operator: "Exists" }],
        containers: [{ name: "main", image: "none" }],
      };
      await apply({
        apiVersion: "v1",
        kind: "Pod",
        metadata: { name: pod, namespace: namespace.name },
        spec,
      });
      await patchStatus(["pod", pod, "-n", namespace.name], {
        phase: "Running",
        containerStatuses: [
          {
            name: "main",
            image: "none",
            imageID: "none",
            ready: true,
            restartCount: 0,
            state: { running: {} },
          },
        ],
      });
      return pod;
    },
    [Symbol.asyncDispose]: async () => {
      await cluster.kubectl(["delete", "node", name, "--wait=false"]);
      server.server.closeAllConnections();
      await server.stop();
    },
  };
}
