/** The cluster as the rules see it, made of objects in memory. */
import type { PriorityClass } from "@cocoon/kube";
import { Fault } from "@cocoon/core";
import type { ConfigMap, KubeObject, Node, Pod } from "@cocoon/kube";
import { quotaKey } from "../keys.ts";
import type { ClusterColocationProfile, ElasticQuota, ElasticQuotaProfile, Reservation } from "../kinds.ts";
import { computePodRequest, readPod } from "../pod/read-pod.ts";
import { compileProfile } from "../profile-engine.ts";
import type { AdmittedChange, ChangeStore } from "../quota/change-admission.ts";
import type { PodAdmissionOptions } from "../quota/pod-admission.ts";
import { QuotaTree, readQuota } from "../quota/quota-tree.ts";
import type { ClusterView } from "../view.ts";

/** The objects of a small cluster. */
export interface ClusterObjects {
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

export const defaultPriorityClasses: readonly PriorityClass[] = Object.entries({
  "koord-prod": 9000,
  "koord-mid": 7000,
  "koord-batch": 5000,
  "koord-free": 3000,
}).map(([name, value]) => ({ metadata: { name }, value, preemptionPolicy: "PreemptLowerPriority" }));

let versions = 0;

export function withVersion(quota: ElasticQuota): ElasticQuota {
  versions += 1;
  return {
    ...quota,
    metadata: { uid: `uid-${versions}`, ...quota.metadata, resourceVersion: String(versions) },
  };
}

export function createFakeView(objects: ClusterObjects, quotas: readonly ElasticQuota[]): ClusterView {
  const summary = ({ metadata }: Pod) => ({
    namespace: metadata.namespace ?? "",
    name: metadata.name ?? "",
    labels: metadata.labels ?? {},
    annotations: metadata.annotations ?? {},
  });
  const named = <T extends KubeObject>(list: readonly T[] | undefined, name: string, namespace?: string) =>
    list?.find(({ metadata }) => metadata.name === name && (!namespace || metadata.namespace === namespace));
  let built: { readonly at: number; readonly tree: QuotaTree } | undefined;
  const compiled = (objects.profiles ?? [])
    .map(compileProfile)
    .toSorted((left, right) => (left.name < right.name ? -1 : 1));
  return {
    profiles: () => compiled,
    namespaceLabels: (name) => objects.namespaces?.[name] ?? {},
    priorityClass: (name) => named(objects.priorityClasses, name),
    quotas: () => {
      if (built?.at !== versions) built = { at: versions, tree: new QuotaTree(quotas.map(readQuota)) };
      return built.tree;
    },
    quota: (name) => quotas.map(readQuota).find((each) => each.name === name),
    quotaProfiles: () => objects.quotaProfiles ?? [],
    configMap: (namespace, name) => named(objects.configMaps, name, namespace),
    pod: (namespace, name) => {
      const found = named(objects.pods, name, namespace);
      return found && summary(found);
    },
    podsWithQuotaLabel: (quota) =>
      (objects.pods ?? []).filter(({ metadata }) => metadata.labels?.[quotaKey.name] === quota).map(summary),
    podsInNamespace: (namespace) =>
      (objects.pods ?? []).filter(({ metadata }) => metadata.namespace === namespace).map(summary),
    nodes: () => objects.nodes ?? [],
    reservation: (name) => named(objects.reservations, name),
  };
}

/** Keeps admitted changes as a ConfigMap would: by version. */
export function createFakeChangeStore(quotas: readonly ElasticQuota[]): ChangeStore {
  let version = 0;
  let entries: readonly AdmittedChange[] = [];
  return {
    readChanges: () => Promise.resolve({ version: version === 0 ? undefined : String(version), entries }),
    writeChanges: (expected, wanted) => {
      if (expected !== (version === 0 ? undefined : String(version)))
        return Promise.reject(new Fault("conflict", "another writer wrote"));
      version += 1;
      // What these tests admit is never stored, and must not stand in the next one's way.
      entries = wanted.slice(0, 0);
      return Promise.resolve();
    },
    listQuotas: () => Promise.resolve(quotas),
    wasStored: () => false,
  };
}

export function createFakeUsageStore(
  quotas: ElasticQuota[],
  pods: readonly Pod[],
): PodAdmissionOptions["store"] {
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
        return Promise.reject(new Fault("conflict", "another writer wrote"));
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
          .map((reading) => ({ uid: reading.uid, request: computePodRequest(reading) })),
      ),
    wasStored: () => false,
    find: (name) => Promise.resolve(quotas.filter(({ metadata }) => metadata.name === name).map(readQuota)),
  };
}
