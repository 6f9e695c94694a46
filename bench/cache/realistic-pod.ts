/**
 * Pods of the size and variety that production clusters have: a Deployment's pod with a proxy sidecar and an init
 * container, two dozen environment variables, probes, volumes, and the status that a kubelet writes. The managed
 * fields are the server's own, from writes by three field managers.
 */
import type { Container, EnvVar, Pod, PodSpec, PodStatus } from "@cocoon/kube";

const registry = "registry.example.com/platform";
const started = "2026-03-02T10:11:12Z";

export interface PodPlace {
  readonly index: number;
  readonly namespace: string;
}

interface Names extends PodPlace {
  readonly app: string;
  readonly name: string;
  readonly node: string;
  readonly replicaSet: string;
}

function createNames(place: PodPlace): Names {
  const { index } = place;
  const app = `service-${String(Math.floor(index / 20)).padStart(4, "0")}`;
  const replicaSet = `${app}-${hex(Math.floor(index / 20) + 7, 10)}`;
  return {
    ...place,
    app,
    replicaSet,
    name: `${replicaSet}-${hex(index + 11, 5)}`,
    node: `node-${index % 250}`,
  };
}

/** Looks random, is the same in every run. */
function hex(seed: number, length: number): string {
  let text = "";
  for (let round = seed; text.length < length; round += 0x9e3779b9)
    text += (Math.imul(round ^ (round >>> 15), 0x2c1b3c6d) >>> 0).toString(16).padStart(8, "0");
  return text.slice(0, length);
}

export function realisticPod(place: PodPlace): Pod {
  const names = createNames(place);
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      namespace: names.namespace,
      name: names.name,
      labels: {
        "app.kubernetes.io/name": names.app,
        "app.kubernetes.io/instance": `${names.app}-production`,
        "app.kubernetes.io/version": "2026.3.1",
        "app.kubernetes.io/component": "backend",
        "app.kubernetes.io/part-of": "storefront",
        "app.kubernetes.io/managed-by": "Helm",
        "pod-template-hash": names.replicaSet.slice(-10),
        team: `team-${names.index % 17}`,
      },
      annotations: {
        "prometheus.io/scrape": "true",
        "prometheus.io/port": "9090",
        "checksum/config": hex(names.index, 64),
        "kubectl.kubernetes.io/restartedAt": started,
        "sidecar.example.com/status": `{"version":"1.22.1","initContainers":["proxy-init"],"containers":["proxy"],"revision":"default"}`,
      },
      ownerReferences: [
        {
          apiVersion: "apps/v1",
          kind: "ReplicaSet",
          name: names.replicaSet,
          uid: `0f1e2d3c-4b5a-6978-8796-${hex(Math.floor(names.index / 20), 12)}`,
          controller: true,
          blockOwnerDeletion: true,
        },
      ],
    },
    spec: podSpec(names),
  };
}

function podSpec(names: Names): PodSpec {
  return {
    nodeName: names.node,
    serviceAccountName: names.app,
    terminationGracePeriodSeconds: 60,
    securityContext: {
      runAsNonRoot: true,
      runAsUser: 65532,
      fsGroup: 65532,
      seccompProfile: { type: "RuntimeDefault" },
    },
    tolerations: [
      { key: "dedicated", operator: "Equal", value: "backend", effect: "NoSchedule" },
      {
        key: "node.kubernetes.io/not-ready",
        operator: "Exists",
        effect: "NoExecute",
        tolerationSeconds: 300,
      },
      {
        key: "node.kubernetes.io/unreachable",
        operator: "Exists",
        effect: "NoExecute",
        tolerationSeconds: 300,
      },
    ],
    affinity: {
      podAntiAffinity: {
        preferredDuringSchedulingIgnoredDuringExecution: [
          {
            weight: 100,
            podAffinityTerm: {
              topologyKey: "kubernetes.io/hostname",
              labelSelector: { matchLabels: { "app.kubernetes.io/name": names.app } },
            },
          },
        ],
      },
    },
    topologySpreadConstraints: [
      {
        maxSkew: 1,
        topologyKey: "topology.kubernetes.io/zone",
        whenUnsatisfiable: "ScheduleAnyway",
        labelSelector: { matchLabels: { "app.kubernetes.io/name": names.app } },
      },
    ],
    initContainers: [sideContainer("proxy-init", ["iptables-setup", "-p", "15001", "-u", "1337"])],
    containers: [
      appContainer(names),
      sideContainer("proxy", ["proxy", "sidecar", "--domain", `${names.namespace}.svc.cluster.local`]),
    ],
    volumes: [
      { name: "config", configMap: { name: `${names.app}-config`, defaultMode: 420 } },
      { name: "credentials", secret: { secretName: `${names.app}-credentials`, defaultMode: 256 } },
      { name: "tmp", emptyDir: { sizeLimit: "256Mi" } },
      {
        name: "token",
        projected: {
          defaultMode: 420,
          sources: [
            { serviceAccountToken: { expirationSeconds: 3607, path: "token" } },
            { configMap: { name: "kube-root-ca.crt", items: [{ key: "ca.crt", path: "ca.crt" }] } },
          ],
        },
      },
    ],
  };
}

function appContainer(names: Names): Container {
  const probe = (path: string) => ({
    httpGet: { path, port: "http", scheme: "HTTP" },
    initialDelaySeconds: 5,
    periodSeconds: 10,
    timeoutSeconds: 3,
    failureThreshold: 3,
  });
  return {
    name: "app",
    image: `${registry}/${names.app}:2026.3.1`,
    args: ["serve", "--config=/etc/app/config.yaml", `--shard=${names.index % 16}`, "--log-format=json"],
    env: environment(names),
    ports: [
      { name: "http", containerPort: 8080, protocol: "TCP" },
      { name: "metrics", containerPort: 9090, protocol: "TCP" },
    ],
    resources: { requests: { cpu: "250m", memory: "512Mi" }, limits: { cpu: "2", memory: "1Gi" } },
    livenessProbe: probe("/healthz"),
    readinessProbe: probe("/readyz"),
    startupProbe: probe("/startupz"),
    securityContext: {
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ["ALL"] },
    },
    volumeMounts: [
      { name: "config", mountPath: "/etc/app", readOnly: true },
      { name: "credentials", mountPath: "/etc/credentials", readOnly: true },
      { name: "tmp", mountPath: "/tmp" },
      { name: "token", mountPath: "/var/run/secrets/kubernetes.io/serviceaccount", readOnly: true },
    ],
  };
}

function environment(names: Names): EnvVar[] {
  const field = (name: string, fieldPath: string): EnvVar => ({
    name,
    valueFrom: { fieldRef: { apiVersion: "v1", fieldPath } },
  });
  const secret = (name: string, key: string): EnvVar => ({
    name,
    valueFrom: { secretKeyRef: { name: `${names.app}-credentials`, key } },
  });
  const plain = Array.from({ length: 14 }, (_value, index): EnvVar => ({
    name: `BACKEND_${index}_URL`,
    value: `https://service-${String((names.index + index * 37) % 500).padStart(4, "0")}.${names.namespace}.svc.cluster.local:8443/api/v1`,
  }));
  return [
    field("POD_NAME", "metadata.name"),
    field("POD_NAMESPACE", "metadata.namespace"),
    field("POD_IP", "status.podIP"),
    field("NODE_NAME", "spec.nodeName"),
    secret("DATABASE_PASSWORD", "database-password"),
    secret("API_TOKEN", "api-token"),
    { name: "LOG_LEVEL", value: "info" },
    { name: "INSTANCE_ID", value: hex(names.index * 3 + 1, 24) },
    { name: "OTEL_RESOURCE_ATTRIBUTES", value: `service.name=${names.app},service.version=2026.3.1` },
    { name: "GOMAXPROCS", value: "2" },
    ...plain,
  ];
}

function sideContainer(name: string, args: readonly string[]): Container {
  return {
    name,
    image: `${registry}/mesh-proxy:1.22.1`,
    args,
    env: [
      { name: "PROXY_CONFIG", value: '{"concurrency":2,"holdApplicationUntilProxyStarts":true}' },
      { name: "TRUST_DOMAIN", value: "cluster.local" },
    ],
    resources: { requests: { cpu: "10m", memory: "40Mi" }, limits: { cpu: "500m", memory: "256Mi" } },
  };
}

/** As the kubelet writes it once the pod runs. */
export function realisticStatus(place: PodPlace): PodStatus {
  const { index, app } = createNames(place);
  const podIP = `10.${128 + (index >> 16)}.${(index >> 8) & 255}.${index & 255}`;
  const condition = (type: string) => ({
    type,
    status: "True",
    lastTransitionTime: started,
    observedGeneration: 1,
  });
  const container = (name: string, image: string) => ({
    name,
    image,
    imageID: `${image.split(":")[0]}@sha256:${hex(app.length + name.length, 64)}`,
    containerID: `containerd://${hex(index * 7 + name.length, 64)}`,
    ready: true,
    started: true,
    restartCount: index % 3,
    state: { running: { startedAt: started } },
  });
  return {
    phase: "Running",
    qosClass: "Burstable",
    hostIP: `192.168.${index % 250}.10`,
    hostIPs: [{ ip: `192.168.${index % 250}.10` }],
    podIP,
    podIPs: [{ ip: podIP }],
    startTime: started,
    conditions: ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"].map(
      condition,
    ),
    containerStatuses: [
      container("app", `${registry}/${app}:2026.3.1`),
      container("proxy", `${registry}/mesh-proxy:1.22.1`),
    ],
    initContainerStatuses: [
      {
        name: "proxy-init",
        image: `${registry}/mesh-proxy:1.22.1`,
        imageID: `${registry}/mesh-proxy@sha256:${hex(3, 64)}`,
        containerID: `containerd://${hex(index * 13, 64)}`,
        ready: true,
        started: false,
        restartCount: 0,
        state: { terminated: { exitCode: 0, reason: "Completed", startedAt: started, finishedAt: started } },
      },
    ],
  };
}
