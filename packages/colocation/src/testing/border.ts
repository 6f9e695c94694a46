/** A replica without a cluster: the real HTTPS server and every rule, over objects that a test gives. */
import https from "node:https";
import { createRegistry, Fault, silentLogger } from "@cocoon/core";
import type { ConfigMap, KubeObject, Node, Pod } from "@cocoon/kube";
import { applyJsonPatch } from "@cocoon/core/json-patch";
import {
  startAdmissionServer,
  type AdmissionServer,
  type AdmissionServerOptions,
} from "@cocoon/kube/admission";
import { selfSignedCertificates, type ServingCertificates } from "@cocoon/kube/certificates";
import { readGates } from "../gates.ts";
import { quotaKey } from "../keys.ts";
import type {
  ClusterColocationProfile,
  ElasticQuota,
  ElasticQuotaProfile,
  PriorityClass,
  Reservation,
} from "../kinds.ts";
import { podRequest } from "../pod/pod-request.ts";
import { readPod } from "../pod/read-pod.ts";
import { compileProfile } from "../profile-engine.ts";
import { podAdmission, type PodAdmissionOptions } from "../quota/pod-admission.ts";
import { QuotaTree, readQuota } from "../quota/quota-tree.ts";
import type { LedgerEntry, TreeStore } from "../quota/tree-ledger.ts";
import { colocationEndpoints, type RuleSettings } from "../server/endpoints.ts";
import { createColocationMetrics } from "../server/metrics.ts";
import { rateLimit, type RateLimitOptions } from "../server/rate-limit.ts";
import { isLenient } from "../server/registration.ts";
import { safety } from "../server/safety.ts";
import { koordinatorWire, maxBodyBytes } from "../server/wire.ts";
import type { ClusterView } from "../view.ts";

/** The objects of a small cluster. */
export interface World {
  readonly profiles?: readonly ClusterColocationProfile[];
  readonly namespaces?: Readonly<Record<string, Readonly<Record<string, string>>>>;
  readonly priorityClasses?: readonly PriorityClass[];
  readonly quotas?: readonly ElasticQuota[];
  readonly quotaProfiles?: readonly ElasticQuotaProfile[];
  readonly configMaps?: readonly ConfigMap[];
  readonly pods?: readonly Pod[];
  readonly nodes?: readonly Node[];
  readonly reservations?: readonly Reservation[];
}

export interface BorderOptions extends World {
  readonly featureGates?: string;
  readonly settings?: Partial<RuleSettings>;
  readonly random?: () => number;
  readonly rateLimit?: Pick<RateLimitOptions, "perSecond" | "burst" | "nowMs">;
  readonly server?: Partial<AdmissionServerOptions>;
  readonly view?: Partial<ClusterView>;
}

export interface Response {
  readonly uid: string;
  readonly allowed: boolean;
  readonly status: { readonly code: number; readonly message?: string; readonly reason?: string };
  readonly patch?: string;
  readonly patchType?: string;
  readonly warnings?: readonly string[];
}

export interface Border extends AsyncDisposable {
  readonly server: AdmissionServer;
  readonly quotas: readonly ElasticQuota[];
  /** The whole answer to a whole review. */
  post(path: string, review: unknown): Promise<Record<string, unknown> & { response: Response }>;
  /** The answer to one request, whose fields are filled in. */
  ask(path: string, request: Readonly<Record<string, unknown>>): Promise<Response>;
  send(
    path: string,
    body: string | Buffer,
    headers?: Readonly<Record<string, string>>,
  ): Promise<{ status: number; text: string; headers: Readonly<Record<string, unknown>> }>;
  metrics(): Promise<string>;
}

export const defaultPriorityClasses: readonly PriorityClass[] = Object.entries({
  "koord-prod": 9000,
  "koord-mid": 7000,
  "koord-batch": 5000,
  "koord-free": 3000,
}).map(([name, value]) => ({ metadata: { name }, value, preemptionPolicy: "PreemptLowerPriority" }));

let certificates: Promise<ServingCertificates> | undefined;

export async function startBorder(options: BorderOptions = {}): Promise<Border> {
  certificates ??= selfSignedCertificates({ host: "localhost" });
  const registry = createRegistry("cocoon-colocation");
  const metrics = createColocationMetrics(registry);
  const world = { priorityClasses: defaultPriorityClasses, ...options };
  const stored = [...(world.quotas ?? [])].map(withVersion);
  const settings = ruleSettings(options);
  const view = { ...memoryView(world, stored), ...options.view };
  const server = await startAdmissionServer({
    host: "127.0.0.1",
    port: 0,
    certificates: await certificates,
    endpoints: colocationEndpoints({
      settings,
      view,
      metrics,
      log: silentLogger,
      treeStore: memoryTreeStore(stored),
      admission: podAdmission({ view, store: memoryPodStore(stored, world.pods ?? []), patienceMs: 200 }),
      ...(options.random ? { random: options.random } : {}),
    }),
    middleware: [
      metrics.inFlight,
      safety({ isLenient, failed: metrics.failed }),
      rateLimit({ perSecond: 0, burst: 0, ...options.rateLimit, isLenient, limited: metrics.limited }),
    ],
    limits: { bodyBytes: maxBodyBytes - 1 },
    wire: koordinatorWire,
    registry,
    observe: metrics.observe,
    lameDuckMs: 0,
    drainMs: 1_000,
    ...options.server,
  });
  return borderOf(server, stored, () => registry.metrics());
}

function ruleSettings({ featureGates = "", settings = {} }: BorderOptions): RuleSettings {
  return {
    gates: readGates(featureGates).gates,
    warnRules: [],
    configNamespace: "koordinator-system",
    sloConfigName: "slo-controller-config",
    sloNamesNeeded: false,
    maxAmplificationRatio: undefined,
    enhanced: { namespace: "koordinator-system", name: "pod-enhanced-validator-config" },
    binding: {
      users: [],
      dryRun: false,
      namespaces: [],
      excludedNamespaces: ["kube-system"],
      bypassLabels: ["koordinator.sh/binding-admission-bypass"],
      bypassAnnotations: [],
    },
    ...settings,
  };
}

function borderOf(
  server: AdmissionServer,
  quotas: readonly ElasticQuota[],
  metrics: () => Promise<string>,
): Border {
  const agent = new https.Agent({ keepAlive: true, rejectUnauthorized: false });
  const send: Border["send"] = (path, body, headers = { "content-type": "application/json" }) =>
    new Promise((resolve, reject) => {
      const length = { "content-length": String(Buffer.byteLength(body)) };
      const sent = https.request(
        `${server.url}${path}`,
        { method: "POST", agent, headers: { ...length, ...headers } },
        (response) => {
          let text = "";
          response.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
          response.on("error", reject);
          response.on("end", () =>
            resolve({ status: response.statusCode ?? 0, text, headers: response.headers }),
          );
        },
      );
      sent.on("error", reject);
      sent.end(body);
    });
  const post: Border["post"] = async (path, review) => {
    const { status, text } = await send(path, JSON.stringify(review));
    if (status !== 200) throw new Error(`HTTP ${status}: ${text}`);
    return JSON.parse(text) as Record<string, unknown> & { response: Response };
  };
  return {
    server,
    quotas,
    post,
    send,
    metrics,
    ask: async (path, request) => (await post(path, reviewOf(path, request))).response,
    [Symbol.asyncDispose]: async () => {
      agent.destroy();
      await server.stop();
    },
  };
}

const resources: Readonly<
  Record<
    string,
    {
      readonly group: string;
      readonly version: string;
      readonly resource: string;
      readonly kind: string;
      readonly subResource?: string;
    }
  >
> = {
  pod: { group: "", version: "v1", resource: "pods", kind: "Pod" },
  binding: { group: "", version: "v1", resource: "pods", kind: "Binding", subResource: "binding" },
  status: { group: "", version: "v1", resource: "nodes", kind: "Node", subResource: "status" },
  node: { group: "", version: "v1", resource: "nodes", kind: "Node" },
  elasticquota: {
    group: "scheduling.sigs.k8s.io",
    version: "v1alpha1",
    resource: "elasticquotas",
    kind: "ElasticQuota",
  },
  reservation: {
    group: "scheduling.koordinator.sh",
    version: "v1alpha1",
    resource: "reservations",
    kind: "Reservation",
  },
  configmap: { group: "", version: "v1", resource: "configmaps", kind: "ConfigMap" },
};

/** A review for an endpoint, with the given fields of the request instead. */
export function reviewOf(path: string, request: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const type = resources[path.split("-").at(-1) ?? ""];
  const { group = "", version = "", resource = "", kind = "", subResource } = type ?? {};
  return {
    apiVersion: "admission.k8s.io/v1",
    kind: "AdmissionReview",
    request: {
      uid: "u1",
      kind: { group, version, kind },
      resource: { group, version, resource },
      ...(subResource ? { subResource } : {}),
      operation: "CREATE",
      userInfo: { username: "alice" },
      ...request,
    },
  };
}

/** The object after the patch of an answer. */
export function patched(object: unknown, response: Response): unknown {
  const text = response.patch ? Buffer.from(response.patch, "base64").toString("utf8") : "[]";
  const operations: unknown = JSON.parse(text);
  return applyJsonPatch(object, operations as never);
}

let versions = 0;

function withVersion(quota: ElasticQuota): ElasticQuota {
  versions += 1;
  return {
    ...quota,
    metadata: { uid: `uid-${versions}`, ...quota.metadata, resourceVersion: String(versions) },
  };
}

function memoryView(world: World, quotas: readonly ElasticQuota[]): ClusterView {
  const summary = ({ metadata }: Pod) => ({
    namespace: metadata.namespace ?? "",
    name: metadata.name ?? "",
    labels: metadata.labels ?? {},
    annotations: metadata.annotations ?? {},
  });
  const named = <T extends KubeObject>(list: readonly T[] | undefined, name: string, namespace?: string) =>
    list?.find(({ metadata }) => metadata.name === name && (!namespace || metadata.namespace === namespace));
  let built: { readonly at: number; readonly tree: QuotaTree } | undefined;
  const compiled = (world.profiles ?? [])
    .map(compileProfile)
    .toSorted((left, right) => (left.name < right.name ? -1 : 1));
  return {
    profiles: () => compiled,
    namespaceLabels: (name) => world.namespaces?.[name] ?? {},
    priorityClass: (name) => named(world.priorityClasses, name),
    quotas: () => {
      if (built?.at !== versions) built = { at: versions, tree: new QuotaTree(quotas.map(readQuota)) };
      return built.tree;
    },
    quota: (name) => quotas.map(readQuota).find((each) => each.name === name),
    quotaProfiles: () => world.quotaProfiles ?? [],
    configMap: (namespace, name) => named(world.configMaps, name, namespace),
    pod: (namespace, name) => {
      const found = named(world.pods, name, namespace);
      return found && summary(found);
    },
    podsWithQuotaLabel: (quota) =>
      (world.pods ?? []).filter(({ metadata }) => metadata.labels?.[quotaKey.name] === quota).map(summary),
    podsInNamespace: (namespace) =>
      (world.pods ?? []).filter(({ metadata }) => metadata.namespace === namespace).map(summary),
    nodes: () => world.nodes ?? [],
    reservation: (name) => named(world.reservations, name),
  };
}

/** Keeps a ledger as a Secret or ConfigMap would: by version. */
function memoryTreeStore(quotas: readonly ElasticQuota[]): TreeStore {
  let version = 0;
  let entries: readonly LedgerEntry[] = [];
  return {
    readLedger: () => Promise.resolve({ version: version === 0 ? undefined : String(version), entries }),
    writeLedger: (expected, wanted) => {
      if (expected !== (version === 0 ? undefined : String(version)))
        return Promise.reject(new Fault("conflict", "somebody else wrote"));
      version += 1;
      // What these tests admit is never stored, and must not stand in the next one's way.
      entries = wanted.slice(0, 0);
      return Promise.resolve();
    },
    listQuotas: () => Promise.resolve(quotas),
    wasStored: () => false,
  };
}

function memoryPodStore(quotas: ElasticQuota[], pods: readonly Pod[]): PodAdmissionOptions["store"] {
  const at = (key: { readonly namespace: string; readonly name: string }) =>
    quotas.findIndex(({ metadata }) => metadata.namespace === key.namespace && metadata.name === key.name);
  return {
    read: (key) => {
      const found = quotas[at(key)];
      return found ? Promise.resolve(found) : Promise.reject(new Fault("notFound", "no such quota"));
    },
    write: (quota, annotations) => {
      const index = at({ namespace: quota.metadata.namespace ?? "", name: quota.metadata.name ?? "" });
      const current = quotas[index];
      if (!current || current.metadata.resourceVersion !== quota.metadata.resourceVersion)
        return Promise.reject(new Fault("conflict", "somebody else wrote"));
      const merged = { ...current.metadata.annotations, ...annotations };
      const written = withVersion({ ...current, metadata: { ...current.metadata, annotations: merged } });
      quotas[index] = written;
      return Promise.resolve(written);
    },
    listPods: (quota) =>
      Promise.resolve(
        pods
          .filter(({ metadata }) => metadata.labels?.[quotaKey.name] === quota.metadata.name)
          .map((pod) => readPod(pod as never))
          .filter(({ phase }) => phase !== "Succeeded" && phase !== "Failed")
          .map((reading) => ({ uid: reading.uid, request: podRequest(reading) })),
      ),
    wasStored: () => false,
    find: (name) => Promise.resolve(quotas.filter(({ metadata }) => metadata.name === name).map(readQuota)),
  };
}
