/** The cluster as the rules see it, kept current by watches. A kind that the cluster does not serve counts as empty. */
import { ignoreFault, type Abortable, type Logger } from "@cocoon/core";
import {
  configMaps,
  namespaces,
  nodes,
  openCaches,
  pods,
  type CacheListener,
  type Caches,
  type KubeConnection,
  type KubeObject,
  type Node,
  type ObjectCache,
  type ObjectKey,
  type Pod,
  type ResourceType,
} from "@cocoon/kube";
import { quotaKey } from "../keys.ts";
import { elasticQuotaProfiles, elasticQuotas, priorityClasses, profiles, reservations } from "../kinds.ts";
import { compileProfile, type CompiledProfile } from "../profile-engine.ts";
import { QuotaTree, tryReadQuota } from "../quota/quota-tree.ts";
import type { ClusterView, PodSummary } from "../view.ts";
import { openWhenServed, OptionalCache } from "./optional-cache.ts";

export interface ClusterCaches extends AsyncDisposable {
  readonly view: ClusterView;
  /** Whether a pod or quota with that uid was stored lately, even if it is gone by now. */
  readonly wasStored: (uid: string) => boolean;
  /** Which kinds have not been listed yet; those that the cluster does not serve are never waited for. */
  pending(): readonly string[];
  /** Kinds that the cluster does not serve yet: taken as empty, looked for until they are there. */
  missing(): readonly string[];
  synced(options: Abortable): Promise<void>;
}

export interface ViewOptions {
  readonly client: KubeConnection;
  readonly log: Logger;
  readonly configNamespaces: readonly string[];
  readonly signal: AbortSignal;
}

type Opened = ReturnType<typeof openAll>;

export async function openClusterView(options: ViewOptions): Promise<ClusterCaches> {
  const { client, log, signal } = options;
  const caches = openCaches({ client, log });
  const opened = openAll(caches, options.configNamespaces);
  const optional = [opened.profiles, opened.quotas, opened.quotaProfiles, opened.reservations];
  for (const each of optional) await each.look(client, { log, signal });
  const stopping = new AbortController();
  const looking = openWhenServed(optional, {
    client,
    log,
    signal: AbortSignal.any([signal, stopping.signal]),
  });
  const seen = new SeenUids();
  for (const cache of [opened.pods, opened.quotas]) seen.follow(cache);
  const all = (): readonly (readonly [string, Pick<ObjectCache<KubeObject>, "isSynced" | "synced">])[] => [
    ["priorityclasses", opened.classes],
    ["namespaces", opened.namespaces],
    ["pods", opened.pods],
    ["nodes", opened.nodes],
    ...opened.configMaps.map((cache) => ["configmaps", cache] as const),
    ...optional.flatMap(({ type, current }) => (current ? [[type.plural, current] as const] : [])),
  ];
  return {
    view: createView(opened, client, signal),
    wasStored: (uid) => seen.has(uid),
    pending: () => all().flatMap(([name, cache]) => (cache.isSynced ? [] : [name])),
    missing: () => optional.flatMap(({ type, current }) => (current ? [] : [`${type.plural}.${type.group}`])),
    synced: async (call) => void (await Promise.all(all().map(([, cache]) => cache.synced(call)))),
    [Symbol.asyncDispose]: async () => {
      stopping.abort();
      await looking;
      await caches[Symbol.asyncDispose]();
    },
  };
}

function openAll(caches: Caches, configNamespaces: readonly string[]) {
  return {
    profiles: new OptionalCache(profiles, caches),
    quotas: new OptionalCache(elasticQuotas, caches),
    quotaProfiles: new OptionalCache(elasticQuotaProfiles, caches),
    reservations: new OptionalCache(reservations, caches),
    classes: caches.open(priorityClasses),
    namespaces: caches.open(namespaces),
    pods: caches.open(pods, { transform: slim }),
    nodes: caches.open(nodes, { transform: slimNode }),
    configMaps: [...new Set(configNamespaces)].map((namespace) => caches.open(configMaps, { namespace })),
  };
}

/** Labels, annotations and names are all that is read of stored pods. */
function slim({ apiVersion, kind, metadata }: Pod): Pod {
  const { name, namespace, uid, resourceVersion, labels, annotations } = metadata;
  return {
    apiVersion,
    kind,
    metadata: { name, namespace, uid, resourceVersion, labels, annotations },
  } as Pod;
}

function slimNode({ apiVersion, kind, metadata }: Node): Node {
  const { name, uid, resourceVersion, labels } = metadata;
  return { apiVersion, kind, metadata: { name, uid, resourceVersion, labels } } as Node;
}

function createView(opened: Opened, client: KubeConnection, signal: AbortSignal): ClusterView {
  const compiled = derived(opened.profiles, (all) =>
    [...all]
      .map(compileProfile)
      .toSorted((left, right) => (left.name < right.name ? -1 : left.name > right.name ? 1 : 0)),
  );
  const tree = derived(opened.quotas, (all) => new QuotaTree([...all].flatMap(tryReadQuota)));
  const byQuota = opened.pods.index(readQuotaLabel);
  const byNamespace = opened.pods.index(readNamespace);
  const find = <T extends KubeObject>(type: ResourceType<T>, key: ObjectKey) =>
    ignoreFault("notFound", client.get(type, key, { signal }));
  return {
    profiles: (): readonly CompiledProfile[] => compiled() ?? [],
    namespaceLabels: (name) => {
      const known = opened.namespaces.get({ name });
      if (known) return known.metadata.labels ?? {};
      return name === "" ? {} : find(namespaces, { name }).then((found) => found?.metadata.labels ?? {});
    },
    priorityClass: (name) => opened.classes.get({ name }) ?? find(priorityClasses, { name }),
    quotas: () => tree() ?? noQuotas,
    quota: async (name) => {
      const known = tree()?.get(name);
      if (known || !opened.quotas.current) return known;
      const found = await client.list(elasticQuotas, { fieldSelector: `metadata.name=${name}`, signal });
      return found.items.flatMap(tryReadQuota)[0];
    },
    quotaProfiles: () => opened.quotaProfiles.current?.list() ?? [],
    configMap: (namespace, name) =>
      opened.configMaps.map((cache) => cache.get({ namespace, name })).find((found) => found !== undefined),
    pod: (namespace, name) => {
      const known = opened.pods.get({ namespace, name });
      if (known) return summary(known);
      return find(pods, { namespace, name }).then((found) => found && summary(found));
    },
    podsWithQuotaLabel: (quota) => byQuota.get(quota).map(summary),
    podsInNamespace: (namespace) => byNamespace.get(namespace).map(summary),
    nodes: () => opened.nodes.list(),
    reservation: (name) => opened.reservations.current?.get({ name }) ?? find(reservations, { name }),
  };
}

const noQuotas = new QuotaTree([]);

/** Worked out again only when the cache has changed since. */
function derived<T extends KubeObject, V>(
  cache: OptionalCache<T>,
  make: (all: Iterable<T>) => V,
): () => V | undefined {
  let made: V | undefined;
  cache.subscribe(() => (made = undefined));
  return () => (cache.current ? (made ??= make(cache.current.list())) : undefined);
}

function readQuotaLabel({ metadata }: Pod): string[] {
  const name = metadata.labels?.[quotaKey.name];
  return name ? [name] : [];
}

function readNamespace({ metadata }: Pod): string[] {
  return [metadata.namespace ?? ""];
}

function summary({ metadata }: Pod): PodSummary {
  const { namespace = "", name = "", labels = {}, annotations = {} } = metadata;
  return { namespace, name, labels, annotations };
}

/** Longer than anything is held that is not known to be stored. */
const rememberMs = 120_000;

/** Identities of objects that were seen stored lately, also when they are gone again. */
export class SeenUids {
  readonly #seen = new Map<string, number>();
  readonly #nowMs: () => number;

  constructor(nowMs: () => number = Date.now) {
    this.#nowMs = nowMs;
  }

  follow(cache: { readonly subscribe: (listener: CacheListener<KubeObject>) => unknown }): void {
    cache.subscribe((event) => {
      // What was there from the start is listed; only what comes can go unnoticed.
      if (event.kind === "added" && !event.initial) this.add(event.object.metadata.uid ?? "");
    });
  }

  add(uid: string): void {
    const now = this.#nowMs();
    this.#seen.set(uid, now);
    for (const [oldest, atMs] of this.#seen) {
      if (now - atMs < rememberMs) break;
      this.#seen.delete(oldest);
    }
  }

  has(uid: string): boolean {
    return this.#seen.has(uid);
  }
}
