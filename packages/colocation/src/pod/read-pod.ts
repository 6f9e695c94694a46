/** A pod as the rules need it, read from what the API server sent. Fields of a wrong type are refused by name. */
import { compareQuantities, type Quantity } from "@cocoon/core/quantity";
import {
  own,
  readObject,
  readObjects,
  readText,
  readTexts,
  undecodable,
  type ReadonlyJson,
  type Texts,
} from "../json.ts";
import { largest, readResources, sum, zero, type Resources } from "../resources.ts";

export interface ContainerReading {
  readonly name: string;
  readonly requests: Resources;
  readonly limits: Resources;
  readonly isSidecar: boolean;
}

/** Everything but the amounts, which take the most time to read. */
export interface PodHead {
  readonly name: string;
  readonly uid: string;
  readonly namespace: string;
  readonly labels: Texts;
  readonly annotations: Texts;
  readonly priority: number | undefined;
  readonly phase: string;
  readonly nodeName: string;
  readonly tolerationKeys: readonly string[];
}

export interface PodReading extends PodHead {
  readonly containers: readonly ContainerReading[];
  readonly initContainers: readonly ContainerReading[];
  readonly overhead: Resources;
  /** `spec.resources.requests`, of the pod as a whole. */
  readonly podRequests: Resources;
  /** Kubernetes' own QoS class is BestEffort. */
  isBestEffort(): boolean;
}

export function readPodHead(object: ReadonlyJson): PodHead {
  const metadata = readObject(object, "metadata", "metadata") ?? {};
  const spec = readObject(object, "spec", "spec") ?? {};
  const status = readObject(object, "status", "status") ?? {};
  return {
    name: readText(metadata, "name", "metadata.name"),
    uid: readText(metadata, "uid", "metadata.uid"),
    namespace: readText(metadata, "namespace", "metadata.namespace"),
    labels: readTexts(metadata, "labels", "metadata.labels"),
    annotations: readTexts(metadata, "annotations", "metadata.annotations"),
    priority: readInteger(spec, "priority", "spec.priority"),
    phase: readText(status, "phase", "status.phase"),
    nodeName: readText(spec, "nodeName", "spec.nodeName"),
    tolerationKeys: readObjects(spec, "tolerations", "spec.tolerations").map((each, index) =>
      readText(each, "key", `spec.tolerations[${index}].key`),
    ),
  };
}

export function readPod(object: ReadonlyJson): PodReading {
  const head = readPodHead(object);
  const spec = readObject(object, "spec", "spec") ?? {};
  const containers = readContainers(spec, "containers");
  const initContainers = readContainers(spec, "initContainers");
  const podResources = readObject(spec, "resources", "spec.resources");
  const podRequests = readResources(podResources, "requests", "spec.resources.requests");
  const podLimits = readResources(podResources, "limits", "spec.resources.limits");
  return {
    ...head,
    containers,
    initContainers,
    overhead: readResources(spec, "overhead", "spec.overhead"),
    podRequests,
    isBestEffort: () =>
      [
        podRequests,
        podLimits,
        ...[...containers, ...initContainers].flatMap((each) => [each.requests, each.limits]),
      ].every(requestsNothing),
  };
}

function requestsNothing(resources: Resources): boolean {
  return ["cpu", "memory"].every((name) => compareQuantities(resources.get(name) ?? zero, zero) === 0);
}

function readContainers(spec: ReadonlyJson, field: string): readonly ContainerReading[] {
  return readObjects(spec, field, `spec.${field}`).map((container, index) => {
    const path = `spec.${field}[${index}]`;
    const resources = readObject(container, "resources", `${path}.resources`);
    return {
      name: readText(container, "name", `${path}.name`),
      requests: readResources(resources, "requests", `${path}.resources.requests`),
      limits: readResources(resources, "limits", `${path}.resources.limits`),
      isSidecar: readText(container, "restartPolicy", `${path}.restartPolicy`) === "Always",
    };
  });
}

function readInteger(object: ReadonlyJson, key: string, path: string): number | undefined {
  const value = own(object, key);
  if (value === undefined || value === null) return undefined;
  if (typeof value !== "number" || !Number.isInteger(value)) throw undecodable(path, "a whole number");
  return value;
}

/** The larger of what runs together and of each init container with earlier sidecars; pod requests replace it; overhead adds. */
export function computePodRequest(pod: PodReading): Resources {
  const base = new Map(computeContainerRequest(pod));
  for (const name of ["cpu", "memory"]) {
    const quantity = pod.podRequests.get(name);
    if (quantity) base.set(name, quantity);
  }
  return pod.overhead.size === 0 ? base : sum([base, pod.overhead]);
}

function computeContainerRequest({ containers, initContainers }: PodReading): ReadonlyMap<string, Quantity> {
  if (initContainers.length === 0) return sum(containers.map((each) => each.requests));
  let sidecars: Resources = new Map();
  const peaks: Resources[] = [];
  for (const each of initContainers) {
    const withEarlier = sum([sidecars, each.requests]);
    peaks.push(withEarlier);
    if (each.isSidecar) sidecars = withEarlier;
  }
  return largest([sum([...containers.map((each) => each.requests), sidecars]), ...peaks]);
}
