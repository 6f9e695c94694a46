/** The quotas and how they hang together, read from ElasticQuota objects. Pure: a tree is a moment, it never changes. */
import { tryParseJson, getErrorMessage } from "@cocoon/core";
import { isRecord } from "../json.ts";
import { quotaKey, rootQuota } from "../keys.ts";
import type { ElasticQuota } from "../kinds.ts";
import { parseResources, readResources, type Resources } from "../resources.ts";

export interface Quota {
  readonly name: string;
  readonly namespace: string;
  readonly uid: string;
  readonly resourceVersion: string;
  readonly parent: string;
  readonly treeId: string;
  readonly isParent: boolean;
  readonly isRoot: boolean;
  readonly isForced: boolean;
  readonly allowsLending: boolean;
  readonly min: Resources;
  readonly max: Resources;
  readonly used: Resources;
  readonly guaranteed: Resources;
  readonly namespaces: readonly string[];
  /** Parsed, or why it cannot be. Undefined when there is none. */
  readonly sharedWeight: { readonly value?: Resources; readonly problem?: string } | undefined;
  readonly strictKeys: readonly string[];
  /** Why the annotation with the strict keys cannot be read; undefined when it can, or is absent. */
  readonly strictKeysProblem: string | undefined;
  readonly annotations: Readonly<Record<string, string>>;
}

/** Throws a `badRequest` fault for a quantity that is none; annotations that cannot be read count as absent. */
export function readQuota(object: ElasticQuota): Quota {
  const { metadata, spec, status } = object;
  const { labels = {}, annotations = {} } = metadata;
  return {
    name: metadata.name ?? "",
    namespace: metadata.namespace ?? "",
    uid: metadata.uid ?? "",
    resourceVersion: metadata.resourceVersion ?? "",
    parent: labels[quotaKey.parent] || rootQuota,
    treeId: labels[quotaKey.treeId] ?? "",
    isParent: labels[quotaKey.isParent] === "true",
    isRoot: labels[quotaKey.isRoot] === "true",
    isForced: labels[quotaKey.forceUpdate] === "true",
    allowsLending: labels[quotaKey.allowLent] !== "false",
    min: readResources(spec, "min", "spec.min"),
    max: readResources(spec, "max", "spec.max"),
    used: readResources(status, "used", "status.used"),
    guaranteed: readLenient(annotations[quotaKey.guaranteed]),
    namespaces: readNames(annotations[quotaKey.namespaces]),
    sharedWeight: readResourcesText(annotations[quotaKey.sharedWeight]),
    strictKeys: readNames(annotations[quotaKey.strictKeys]),
    strictKeysProblem: findNamesProblem(annotations[quotaKey.strictKeys]),
    annotations,
  };
}

function readNames(text: string | undefined): readonly string[] {
  const value = tryParseJson(text ?? "");
  return Array.isArray(value) ? value.filter((item) => typeof item === "string") : [];
}

function findNamesProblem(text: string | undefined): string | undefined {
  if (text === undefined || text === "") return undefined;
  const value = tryParseJson(text);
  const isList = Array.isArray(value) && value.every((item) => typeof item === "string");
  return isList || value === null
    ? undefined
    : `${JSON.stringify(text.slice(0, 256))} is not a JSON array of strings`;
}

function readLenient(text: string | undefined): Resources {
  return readResourcesText(text)?.value ?? new Map();
}

export function readResourcesText(text: string | undefined): Quota["sharedWeight"] {
  if (text === undefined || text === "") return undefined;
  try {
    const value: unknown = JSON.parse(text);
    if (value === null) return { value: new Map() };
    if (!isRecord(value)) return { problem: "it must be a JSON object of quantities" };
    return { value: parseResources(value, "it") };
  } catch (error) {
    return { problem: getErrorMessage(error) };
  }
}

/** Nothing for a quota that cannot be read; the API server's schema keeps such from being stored. */
export function tryReadQuota(object: ElasticQuota): Quota[] {
  try {
    return [readQuota(object)];
  } catch {
    return [];
  }
}

export class QuotaTree {
  readonly #byName = new Map<string, Quota[]>();
  readonly #children = new Map<string, Quota[]>();
  readonly #byNamespace = new Map<string, Quota>();

  constructor(quotas: Iterable<Quota>) {
    for (const quota of quotas) {
      push(this.#byName, quota.name, quota);
      push(this.#children, quota.parent, quota);
      for (const namespace of quota.namespaces)
        if (!this.#byNamespace.has(namespace)) this.#byNamespace.set(namespace, quota);
    }
  }

  /** Names count as unique over all namespaces; where they are not, the first counts. */
  get(name: string): Quota | undefined {
    return this.#byName.get(name)?.[0];
  }

  named(name: string): readonly Quota[] {
    return this.#byName.get(name) ?? [];
  }

  children(name: string): readonly Quota[] {
    return this.#children.get(name) ?? [];
  }

  boundTo(namespace: string): Quota | undefined {
    return this.#byNamespace.get(namespace);
  }

  all(): readonly Quota[] {
    return [...this.#byName.values()].flat();
  }
}

function push<K, V>(map: Map<K, V[]>, key: K, value: V): void {
  const list = map.get(key);
  if (list) list.push(value);
  else map.set(key, [value]);
}
