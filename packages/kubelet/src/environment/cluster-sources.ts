/** Where an environment comes from in a cluster: ConfigMaps and Secrets by name, services of the namespace. */
import { Buffer } from "node:buffer";
import { isFault } from "@cocoon/core";
import { configMaps, secrets, services as serviceType, type KubeClient } from "@cocoon/kube";
import type { Pod } from "../provider.ts";
import { resolveEnvironment, type DataLookup, type ResolvedEnvironment } from "./resolve.ts";
import type { Service } from "./service-variables.ts";

export interface ClusterEnvironmentOptions {
  readonly client: KubeClient;
  readonly allocatable: () => Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
}

/**
 * Objects are asked for one by one when a pod names them, never listed: a node then needs no right to read all
 * Secrets of the cluster. A pod without references costs no call.
 */
export function clusterEnvironment({
  client,
  allocatable,
  signal,
}: ClusterEnvironmentOptions): (pod: Pod) => Promise<ResolvedEnvironment> {
  return async (pod) => {
    const namespace = pod.metadata.namespace ?? "default";
    const configMap: DataLookup = (name) =>
      orMissing(async () => (await client.get(configMaps, { namespace, name }, { signal })).data ?? {});
    const secret: DataLookup = (name) =>
      orMissing(async () => decoded((await client.get(secrets, { namespace, name }, { signal })).data ?? {}));
    const wanted = pod.spec.containers.some(
      (container) => (container.env?.length ?? 0) > 0 || (container.envFrom?.length ?? 0) > 0,
    );
    const links =
      wanted && pod.spec.enableServiceLinks !== false ? await listServices(client, namespace, signal) : [];
    return resolveEnvironment(pod, { configMap, secret, services: links, allocatable: allocatable() });
  };
}

async function orMissing<T>(read: () => Promise<T>): Promise<T | "missing"> {
  try {
    return await read();
  } catch (error) {
    if (isFault(error, "notFound")) return "missing";
    throw error;
  }
}

function decoded(data: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(data).map(([key, value]) => [key, Buffer.from(value, "base64").toString("utf8")]),
  );
}

async function listServices(
  client: KubeClient,
  namespace: string,
  signal: AbortSignal,
): Promise<readonly Service[]> {
  const found: Service[] = [];
  for await (const page of client.pages(serviceType, { namespace, signal }))
    found.push(...(page.items as readonly Service[]));
  return found;
}
