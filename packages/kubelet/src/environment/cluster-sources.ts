/** Where an environment comes from in a cluster: ConfigMaps and Secrets by name, services of the namespace. */
import { ignoreFault } from "@cocoon/core";
import {
  configMaps,
  secrets,
  services as serviceType,
  type ConfigMap,
  type KubeClient,
  type Service,
} from "@cocoon/kube";
import type { Pod } from "../provider.ts";
import { resolveEnvironment, type DataLookup, type ResolvedEnvironment } from "./resolve.ts";
import type { PodControllerOptions } from "../pods/pod-controller.ts";

type ClusterEnvironmentOptions = Pick<PodControllerOptions, "client" | "allocatable" | "signal">;

/** Objects are read one by one when a pod names them: a node then needs no right to read all Secrets. */
export function clusterEnvironment({
  client,
  allocatable,
  signal,
}: ClusterEnvironmentOptions): (pod: Pod) => Promise<ResolvedEnvironment> {
  return async (pod) => {
    const namespace = pod.metadata.namespace ?? "default";
    const configMap: DataLookup = (name) =>
      readData(client.get(configMaps, { namespace, name }, { signal }), (text) => text);
    const secret: DataLookup = (name) =>
      readData(client.get(secrets, { namespace, name }, { signal }), (text) =>
        Buffer.from(text, "base64").toString("utf8"),
      );
    const wanted = pod.spec.containers.some(
      (container) => (container.env?.length ?? 0) > 0 || (container.envFrom?.length ?? 0) > 0,
    );
    const links =
      wanted && pod.spec.enableServiceLinks !== false ? await listServices(client, namespace, signal) : [];
    return resolveEnvironment(pod, { configMap, secret, services: links, allocatable: allocatable() });
  };
}

async function readData(
  reading: Promise<ConfigMap>,
  decode: (text: string) => string,
): Promise<Readonly<Record<string, string>> | "missing"> {
  const object = await ignoreFault("notFound", reading);
  if (!object) return "missing";
  return Object.fromEntries(Object.entries(object.data ?? {}).map(([key, text]) => [key, decode(text)]));
}

async function listServices(
  client: KubeClient,
  namespace: string,
  signal: AbortSignal,
): Promise<readonly Service[]> {
  const found: Service[] = [];
  for await (const page of client.pages(serviceType, { namespace, signal })) found.push(...page.items);
  return found;
}
