/** Objects of the tests, and how the cluster shows them afterwards. */
import assert from "node:assert/strict";
import { annotation, hostTaint } from "@cocoon/contract";
import { pods, type KubeConnection } from "@cocoon/kube";
import type { TestCluster } from "@cocoon/testkit";

const signal = new AbortController().signal;
const tolerations = [{ key: hostTaint.key, operator: "Exists" }];

function machineSpec(image: string): object {
  return { tolerations, containers: [{ name: "agent", image }], terminationGracePeriodSeconds: 5 };
}

export function machinePod(namespace: string, name: string, more: object = {}): object {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { namespace, name },
    spec: { ...machineSpec(`example.com/${name}:1`), ...more },
  };
}

export interface DeploymentOptions {
  readonly name: string;
  readonly replicas: number;
  readonly spec?: object;
}

export function buildDeployment(namespace: string, { name, replicas, spec }: DeploymentOptions): object {
  return {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { namespace, name },
    spec: {
      replicas,
      selector: { matchLabels: { app: name } },
      template: { metadata: { labels: { app: name } }, spec: { ...machineSpec("example.com/x:1"), ...spec } },
    },
  };
}

export function buildStatefulSet(namespace: string, name: string, replicas: number): object {
  return {
    apiVersion: "apps/v1",
    kind: "StatefulSet",
    metadata: { namespace, name },
    spec: {
      replicas,
      serviceName: name,
      podManagementPolicy: "Parallel",
      selector: { matchLabels: { app: name } },
      template: { metadata: { labels: { app: name } }, spec: machineSpec("example.com/x:1") },
    },
  };
}

export function buildJob(namespace: string, name: string, parallelism: number): object {
  return {
    apiVersion: "batch/v1",
    kind: "Job",
    metadata: { namespace, name },
    spec: {
      parallelism,
      completions: parallelism,
      template: { spec: { ...machineSpec("example.com/x:1"), restartPolicy: "Never" } },
    },
  };
}

export async function apply(cluster: TestCluster, ...objects: readonly object[]): Promise<void> {
  const input = JSON.stringify({ apiVersion: "v1", kind: "List", items: objects });
  const applied = await cluster.kubectl(["apply", "-f", "-"], { input });
  assert.equal(applied.code, 0, applied.stderr);
}

export interface SeenPod {
  readonly name: string;
  readonly uid: string;
  readonly vmName: string;
  readonly node: string;
  readonly slot: number;
  readonly terminating: boolean;
}

export async function listPods(client: KubeConnection, namespace: string): Promise<SeenPod[]> {
  const found: SeenPod[] = [];
  for await (const page of client.pages(pods, { namespace, signal }))
    for (const { metadata, spec } of page.items) {
      const vmName = metadata.annotations?.[annotation.vmName] ?? "";
      found.push({
        name: metadata.name ?? "",
        uid: metadata.uid ?? "",
        vmName,
        node: spec?.nodeName ?? "",
        slot: Number(/-(\d+)$/.exec(vmName)?.[1] ?? -1),
        terminating: metadata.deletionTimestamp !== undefined,
      });
    }
  return found;
}
