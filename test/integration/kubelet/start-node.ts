/** A kubelet on a test cluster, with a fake provider. */
import { randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import { issueCertificate } from "@cocoon/controlplane";
import { silentLogger, type Logger } from "@cocoon/core";
import { openKubeClient } from "@cocoon/kube";
import { startKubelet, type Kubelet } from "@cocoon/kubelet";
import type { TestCluster } from "@cocoon/testkit";
import { FakeProvider } from "./fake-provider.ts";

export interface TestKubelet extends AsyncDisposable {
  readonly name: string;
  readonly kubelet: Kubelet;
  readonly provider: FakeProvider;
  unhealthy: Error | undefined;
}

export interface TestKubeletOptions {
  readonly provider?: FakeProvider;
  readonly name?: string;
  readonly machineId?: string;
  readonly cpu?: string;
  /** Another way to the API server than the cluster's own kubeconfig. */
  readonly kubeconfig?: string;
  readonly log?: Logger;
}

export async function startNode(
  cluster: TestCluster,
  options: TestKubeletOptions = {},
): Promise<TestKubelet> {
  await using stack = new AsyncDisposableStack();
  const controller = new AbortController();
  stack.defer(() => controller.abort());
  const { signal } = controller;
  const name = options.name ?? `vk-${randomBytes(4).toString("hex")}`;
  const provider = options.provider ?? new FakeProvider();
  const { pki } = cluster.layout;
  const [certificate, key] = await Promise.all([
    readFile(`${pki}/ca.crt`, "utf8"),
    readFile(`${pki}/ca.key`, "utf8"),
  ]);
  const serving = await issueCertificate(
    { certificate, key },
    { commonName: name, usage: "server", hosts: ["127.0.0.1"] },
  );
  const kubeconfig = options.kubeconfig ?? cluster.kubeconfigPath;
  const client = stack.use(await openKubeClient({ kubeconfig, signal }));
  const health: { unhealthy: Error | undefined } = { unhealthy: undefined };
  const kubelet = stack.use(
    await startKubelet({
      client,
      nodeName: name,
      machineId: options.machineId ?? "host-1",
      provider,
      signal,
      log: options.log ?? silentLogger,
      api: {
        host: "127.0.0.1",
        port: 0,
        tls: { cert: serving.certificate, key: serving.key, ca: certificate },
      },
      describe: () =>
        health.unhealthy
          ? Promise.reject(health.unhealthy)
          : Promise.resolve({
              labels: { "test.io/pool": name },
              taints: [{ key: "test.io/only", value: name, effect: "NoSchedule" }],
              capacity: { cpu: options.cpu ?? "8", memory: "8Gi", pods: "100" },
              allocatable: { cpu: options.cpu ?? "8", memory: "8Gi", pods: "100" },
              addresses: [{ type: "InternalIP", address: "127.0.0.1" }],
              nodeInfo: { architecture: "amd64", operatingSystem: "linux", kubeletVersion: "v1.36.3-test" },
              conditions: [
                { type: "Ready", status: "True", reason: "KubeletReady", message: "Kubelet is ready" },
              ],
            }),
    }),
  );
  const parts = stack.move();
  return Object.assign(health, {
    name,
    provider,
    kubelet,
    [Symbol.asyncDispose]: () => parts.disposeAsync(),
  });
}

export function podSpec(node: string, extra: object = {}): object {
  return {
    nodeSelector: { "test.io/pool": node },
    tolerations: [{ key: "test.io/only", operator: "Exists" }],
    containers: [{ name: "main", image: "demo:1", ...extra }],
  };
}
