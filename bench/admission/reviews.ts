/** Reviews of nameless pods, as an API server sends them when a ReplicaSet makes one. */
import { randomUUID } from "node:crypto";
import type { AdmissionRequest } from "@cocoon/kube/admission";

export interface ReplicaOf {
  readonly pool: string;
  readonly namespace: string;
  readonly deployment: string;
}

export function replicaPod({ pool, namespace, deployment }: ReplicaOf): object {
  const replicaSet = `${deployment}-7d4b9c6f5`;
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      namespace,
      generateName: `${replicaSet}-`,
      labels: { app: deployment, "pod-template-hash": "7d4b9c6f5" },
      ownerReferences: [
        {
          apiVersion: "apps/v1",
          kind: "ReplicaSet",
          name: replicaSet,
          uid: "5b1d5e0c-8f0e-4a57-a6f7-0d6f4f6f1c11",
          controller: true,
          blockOwnerDeletion: true,
        },
      ],
    },
    spec: {
      nodeSelector: { "cocoonstack.io/pool": pool },
      containers: [
        {
          name: "agent",
          image: "registry.example.com/team/agent:1",
          resources: { requests: { cpu: "250m", memory: "256Mi" } },
        },
      ],
      restartPolicy: "Always",
      terminationGracePeriodSeconds: 30,
      tolerations: [
        { key: "virtual-kubelet.io/provider", operator: "Exists" },
        ...["not-ready", "unreachable"].map((name) => ({
          key: `node.kubernetes.io/${name}`,
          operator: "Exists",
          effect: "NoExecute",
          tolerationSeconds: 300,
        })),
      ],
    },
  };
}

export function replicaReview(replica: ReplicaOf): string {
  const kind = { group: "", version: "v1", kind: "Pod" };
  const resource = { group: "", version: "v1", resource: "pods" };
  return JSON.stringify({
    kind: "AdmissionReview",
    apiVersion: "admission.k8s.io/v1",
    request: {
      uid: randomUUID(),
      kind,
      resource,
      requestKind: kind,
      requestResource: resource,
      namespace: replica.namespace,
      operation: "CREATE",
      userInfo: { username: "system:serviceaccount:kube-system:replicaset-controller" },
      object: replicaPod(replica),
      oldObject: null,
      dryRun: false,
      options: { kind: "CreateOptions", apiVersion: "meta.k8s.io/v1" },
    },
  });
}

/** The reverse, for the plain server. */
export function readReplica({ object, namespace }: AdmissionRequest): ReplicaOf {
  const { metadata, spec } = object as unknown as {
    metadata: { labels: { app: string } };
    spec: { nodeSelector: Record<string, string> };
  };
  return { namespace, deployment: metadata.labels.app, pool: spec.nodeSelector["cocoonstack.io/pool"] ?? "" };
}

export function workloadReview(): string {
  const template = {
    metadata: { labels: { app: "web" } },
    spec: {
      containers: [{ name: "c", image: "registry.example.com/team/web:1", env: variables(60) }],
      tolerations: [{ key: "virtual-kubelet.io/provider", operator: "Exists" }],
    },
  };
  const object = { metadata: { name: "web", namespace: "shop" }, spec: { replicas: 5, template } };
  return review({ kind: "Deployment", group: "apps", resource: "deployments", object, oldObject: object });
}

export function setReview(): string {
  const spec = (replicas: number) => ({
    agent: { image: "team/base:7", replicas, storage: "60Gi", network: "x".repeat(2_400) },
    toolboxes: [{ name: "browser", image: "registry.example/desktop:24", connType: "rdp" }],
  });
  const metadata = { name: "atlas", namespace: "shop" };
  return review({
    kind: "CocoonSet",
    group: "cocoonset.cocoonstack.io",
    resource: "cocoonsets",
    object: { metadata, spec: spec(2) },
    oldObject: { metadata, spec: spec(1) },
  });
}

function variables(count: number): object[] {
  return Array.from({ length: count }, (_, each) => ({ name: `S_${each}`, value: `value ${each}` }));
}

interface UpdateReview {
  readonly kind: string;
  readonly group: string;
  readonly resource: string;
  readonly object: object;
  readonly oldObject: object;
}

function review({ kind, group, resource, object, oldObject }: UpdateReview): string {
  return JSON.stringify({
    kind: "AdmissionReview",
    apiVersion: "admission.k8s.io/v1",
    request: {
      uid: "705ab4f5-6393-11e8-b7cc-42010a800002",
      kind: { group, version: "v1", kind },
      resource: { group, version: "v1", resource },
      namespace: "shop",
      name: "web",
      operation: "UPDATE",
      userInfo: { username: "alice" },
      object,
      oldObject,
    },
  });
}
