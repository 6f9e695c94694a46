/** A real metrics-server beside a control plane whose aggregation is on. */
import { join } from "node:path";
import assert from "node:assert/strict";
import { reservePort } from "@cocoon/controlplane";
import { startProgram } from "@cocoon/core";
import { temporaryDirectory, type TestCluster } from "@cocoon/testkit";
import { buildGoProgram } from "./go-program.ts";

const group = "metrics.k8s.io";

/** Ends with the returned object; the API is announced and may take a while to answer. */
export async function startMetricsServer(cluster: TestCluster): Promise<AsyncDisposable> {
  const binary = await buildGoProgram({
    name: "metrics-server",
    directory: join(import.meta.dirname, "metrics-server"),
    package: "sigs.k8s.io/metrics-server/cmd/metrics-server",
  });
  const stack = new AsyncDisposableStack();
  const directory = stack.use(await temporaryDirectory());
  const { port } = stack.use(await reservePort());
  const kubeconfig = cluster.kubeconfigPath;
  stack.use(
    await startProgram({
      name: "metrics-server",
      command: binary,
      args: [
        `--kubeconfig=${kubeconfig}`,
        `--authentication-kubeconfig=${kubeconfig}`,
        `--authorization-kubeconfig=${kubeconfig}`,
        `--secure-port=${port}`,
        "--bind-address=127.0.0.1",
        `--cert-dir=${directory.path}`,
        "--kubelet-preferred-address-types=InternalIP",
        `--kubelet-certificate-authority=${cluster.layout.pki}/ca.crt`,
        "--kubelet-use-node-status-port",
        "--metric-resolution=10s",
        "--kubelet-request-timeout=5s",
      ],
      logFile: join(directory.path, "log"),
    }),
  );
  for (const object of announcement(port)) {
    const applied = await cluster.kubectl(["apply", "-f", "-"], { input: JSON.stringify(object) });
    assert.equal(applied.code, 0, applied.stderr);
  }
  return { [Symbol.asyncDispose]: () => stack.disposeAsync() };
}

/** The API server reaches it at the loopback address: a service with an external name needs no proxy. */
function announcement(port: number): readonly object[] {
  const service = { name: "metrics-server", namespace: "kube-system" };
  return [
    {
      apiVersion: "v1",
      kind: "Service",
      metadata: service,
      spec: { type: "ExternalName", externalName: "localhost", ports: [{ port, protocol: "TCP" }] },
    },
    {
      apiVersion: "apiregistration.k8s.io/v1",
      kind: "APIService",
      metadata: { name: `v1beta1.${group}` },
      spec: {
        service: { ...service, port },
        group,
        version: "v1beta1",
        insecureSkipTLSVerify: true,
        groupPriorityMinimum: 100,
        versionPriority: 100,
      },
    },
  ];
}
