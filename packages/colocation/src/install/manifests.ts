/**
 * The objects of an installation: what `deploy/colocation/` holds and what a program may apply by itself. The webhook
 * configurations are not among them: each replica writes and keeps its own, since they depend on its gates.
 */
import { documentedGates } from "../gates.ts";
import { configMapTypeLabel, controlPlaneLabel } from "../keys.ts";
import { colocationCustomResources } from "./custom-resources.ts";
import { manifest, type Manifest } from "./manifest.ts";
import { rbacManifests } from "./rbac.ts";

const defaultNamespace = "cocoon-colocation";
const name = "cocoon-colocation";
const labels = { "app.kubernetes.io/name": name, "app.kubernetes.io/part-of": "cocoon" };
const selector = { "app.kubernetes.io/name": name };

function namespaceManifests(namespace: string): Manifest[] {
  // The label keeps the pod webhooks away from our own pods: they must start without us.
  return [
    manifest(["v1", "Namespace"], { name: namespace, labels: { ...labels, [controlPlaneLabel]: name } }),
  ];
}

const bands = {
  "koord-prod": [9000, "Services that answer users."],
  "koord-mid": [7000, "Work that runs on what services have not asked for, for a while."],
  "koord-batch": [5000, "Work that runs on what services leave over."],
  "koord-free": [3000, "Work that runs when nobody else wants to."],
} as const;

function priorityClassManifests(): Manifest[] {
  return Object.entries(bands).map(([band, [value, description]]) =>
    manifest(
      ["scheduling.k8s.io/v1", "PriorityClass"],
      { name: band, labels },
      {
        value,
        description,
        preemptionPolicy: "PreemptLowerPriority",
      },
    ),
  );
}

/** Koordinator's defaults where it has any; both fields of a pair where its own sample has one. */
const sloData: Readonly<Record<string, unknown>> = {
  "colocation-config": {
    enable: false,
    metricAggregateDurationSeconds: 300,
    metricReportIntervalSeconds: 60,
    cpuReclaimThresholdPercent: 60,
    memoryReclaimThresholdPercent: 65,
    memoryCalculatePolicy: "usage",
    degradeTimeMinutes: 15,
    updateTimeThresholdSeconds: 300,
    resourceDiffThreshold: 0.1,
  },
  "resource-threshold-config": {
    clusterStrategy: {
      enable: false,
      cpuSuppressThresholdPercent: 65,
      cpuSuppressPolicy: "cpuset",
      memoryEvictThresholdPercent: 70,
      memoryEvictLowerPercent: 68,
    },
  },
  "resource-qos-config": { clusterStrategy: { beClass: { cpuQOS: { enable: false, groupIdentity: -1 } } } },
  "cpu-burst-config": {
    clusterStrategy: { policy: "none", cpuBurstPercent: 1000, cfsQuotaBurstPercent: 300 },
  },
  "system-config": { clusterStrategy: { minFreeKbytesFactor: 100, watermarkScaleFactor: 150 } },
};

function sloConfigManifest(namespace: string): Manifest {
  const data = Object.fromEntries(
    Object.entries(sloData).map(([key, value]) => [key, JSON.stringify(value, null, 2)]),
  );
  const marked = { ...labels, [configMapTypeLabel]: "slo-controller-config" };
  return manifest(
    ["v1", "ConfigMap"],
    { name: "slo-controller-config", namespace, labels: marked },
    { data },
  );
}

function serviceManifest(namespace: string): Manifest {
  const ports = [
    { name: "webhook", port: 443, targetPort: "webhook" },
    { name: "metrics", port: 8080, targetPort: "metrics" },
  ];
  return manifest(["v1", "Service"], { name, namespace, labels }, { spec: { selector, ports } });
}

function container(): object {
  const gates = documentedGates.map((gate) => `${gate}=true`).join(",");
  const fieldEnv = (variable: string, fieldPath: string) => ({
    name: variable,
    valueFrom: { fieldRef: { fieldPath } },
  });
  return {
    name: "webhook",
    image: "cocoon-colocation:0.1.0",
    args: [`--feature-gates=${gates}`],
    env: [
      fieldEnv("POD_NAMESPACE", "metadata.namespace"),
      fieldEnv("POD_NAME", "metadata.name"),
      // Reviews die young: a small nursery takes a third less memory under load.
      { name: "NODE_OPTIONS", value: "--max-semi-space-size=4" },
      // The C library has one heap for all threads, and gives back what they no longer need.
      { name: "MALLOC_ARENA_MAX", value: "1" },
      { name: "MALLOC_TRIM_THRESHOLD_", value: "131072" },
    ],
    ports: [
      { name: "webhook", containerPort: 9443 },
      { name: "metrics", containerPort: 8080 },
      { name: "health", containerPort: 8000 },
    ],
    readinessProbe: { httpGet: { path: "/readyz", port: "health" }, periodSeconds: 5 },
    livenessProbe: { httpGet: { path: "/healthz", port: "health" }, periodSeconds: 10, failureThreshold: 6 },
    resources: { requests: { cpu: "500m", memory: "256Mi" }, limits: { cpu: "1", memory: "1Gi" } },
    securityContext: {
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ["ALL"] },
    },
  };
}

function podSpec(): object {
  const term = { topologyKey: "kubernetes.io/hostname", labelSelector: { matchLabels: selector } };
  const preferred = [{ weight: 100, podAffinityTerm: term }];
  return {
    serviceAccountName: name,
    priorityClassName: "system-cluster-critical",
    affinity: { podAntiAffinity: { preferredDuringSchedulingIgnoredDuringExecution: preferred } },
    securityContext: { runAsNonRoot: true, runAsUser: 65_532, seccompProfile: { type: "RuntimeDefault" } },
    containers: [container()],
    terminationGracePeriodSeconds: 30,
  };
}

function deploymentManifests(namespace: string): Manifest[] {
  const metadata = { name, namespace, labels };
  const matching = { selector: { matchLabels: selector } };
  const template = { metadata: { labels }, spec: podSpec() };
  return [
    manifest(["apps/v1", "Deployment"], metadata, { spec: { replicas: 2, ...matching, template } }),
    manifest(["policy/v1", "PodDisruptionBudget"], metadata, { spec: { minAvailable: 1, ...matching } }),
  ];
}

/** By file of `deploy/colocation/`. */
export function colocationManifests(
  namespace: string = defaultNamespace,
): Readonly<Record<string, readonly Manifest[]>> {
  return {
    "crds.yaml": colocationCustomResources(),
    "namespace.yaml": namespaceManifests(namespace),
    "priority-classes.yaml": priorityClassManifests(),
    "rbac.yaml": rbacManifests(namespace),
    "slo-controller-config.yaml": [sloConfigManifest(namespace)],
    "deployment.yaml": [serviceManifest(namespace), ...deploymentManifests(namespace)],
  };
}
