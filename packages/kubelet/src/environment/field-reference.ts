/** The downward API: fields of the pod, and resources of a container, as values. */
import { Fault } from "@cocoon/core";
import { createQuantity, parseQuantity, type Quantity } from "@cocoon/core/quantity";
import type { Container, EnvVar } from "@cocoon/kube";
import type { Pod } from "../provider.ts";

type ResourceFieldReference = NonNullable<NonNullable<EnvVar["valueFrom"]>["resourceFieldRef"]>;

const simple: Readonly<Record<string, (pod: Pod) => string | undefined>> = {
  "metadata.name": (pod) => pod.metadata.name,
  "metadata.namespace": (pod) => pod.metadata.namespace,
  "metadata.uid": (pod) => pod.metadata.uid,
  "metadata.labels": (pod) => sortedLines(pod.metadata.labels),
  "metadata.annotations": (pod) => sortedLines(pod.metadata.annotations),
  "spec.nodeName": (pod) => pod.spec.nodeName,
  "spec.serviceAccountName": (pod) => pod.spec.serviceAccountName,
  "status.hostIP": (pod) => pod.status?.hostIP,
  "status.hostIPs": (pod) => pod.status?.hostIPs?.map((each) => each.ip).join(","),
  "status.podIP": (pod) => pod.status?.podIP,
  "status.podIPs": (pod) => pod.status?.podIPs?.map((each) => each.ip).join(","),
};

export function readField(pod: Pod, path: string): string {
  const read = Object.hasOwn(simple, path) ? simple[path] : undefined;
  if (read) return read(pod) ?? "";
  const subscript = /^metadata\.(labels|annotations)\['([^']+)'\]$/.exec(path);
  if (!subscript) throw new Fault("invalid", `fieldRef.fieldPath "${path}" is not supported`);
  return pod.metadata[subscript[1] as "labels" | "annotations"]?.[subscript[2] ?? ""] ?? "";
}

function sortedLines(map: Readonly<Record<string, string>> | undefined): string {
  const entries = Object.entries(map ?? {}).toSorted(([left], [right]) => (left < right ? -1 : 1));
  return entries.map(([key, value]) => `${key}=${JSON.stringify(value)}`).join("\n");
}

export type Allocatable = Readonly<Record<string, string>>;

export interface ResourceReading {
  readonly pod: Pod;
  readonly container: Container;
  readonly allocatable: Allocatable;
}

/** Rounded up to whole divisors, as Kubernetes does: `limits.cpu` of 250m is 1 unless the divisor is 1m. */
export function readResource(
  reference: ResourceFieldReference,
  { pod, container, allocatable }: ResourceReading,
): string {
  const named = reference.containerName
    ? [...pod.spec.containers, ...(pod.spec.initContainers ?? [])].find(
        (each) => each.name === reference.containerName,
      )
    : container;
  if (!named)
    throw new Fault(
      "invalid",
      `resourceFieldRef.containerName "${reference.containerName}" is not in the pod`,
    );
  const [kind, ...rest] = reference.resource.split(".");
  const resource = rest.join(".");
  if ((kind !== "limits" && kind !== "requests") || resource === "") {
    throw new Fault("invalid", `resourceFieldRef.resource "${reference.resource}" is not supported`);
  }
  const amount =
    named.resources?.[kind]?.[resource] ?? (kind === "limits" ? allocatable[resource] : undefined) ?? "0";
  const divisor = parseQuantity(reference.divisor ?? "1");
  // Zero is the default of the API: no divisor.
  return wholeDivisors(parseQuantity(amount), divisor.nanos === 0n ? createQuantity(1) : divisor);
}

function wholeDivisors({ nanos: amount }: Quantity, { nanos: divisor }: Quantity): string {
  if (divisor <= 0n) throw new Fault("invalid", "resourceFieldRef.divisor must be greater than zero");
  return String((amount + divisor - 1n) / divisor);
}
