/**
 * The Service by which the machines of a set have names: headless, called as the set, so that a machine resolves as
 * MACHINE.SET.NAMESPACE.svc. Pure.
 */
import { annotation, apiVersion, label, legacyAnnotation, readText } from "@cocoon/contract";
import { jsonEqual } from "@cocoon/core";
import type { Pod, Service } from "@cocoon/kube";
import type { CustomObject } from "../kinds.ts";

/** Names of ports; a machine need not listen on all of them. */
const ports = [
  { name: "ssh", port: 22 },
  { name: "rdp", port: 3389 },
  { name: "vnc", port: 5900 },
] as const;

export type ServicePlan =
  | { readonly kind: "none" }
  | { readonly kind: "create"; readonly service: Service }
  | { readonly kind: "patch"; readonly body: object };

/** As Services, and as a pod's `subdomain`, must be called. */
export function canBeService(name: string): boolean {
  return /^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$/.test(name);
}

export interface ObservedNames {
  readonly set: CustomObject;
  readonly pods: readonly Pod[];
  /** Of that name, and of this set. */
  readonly service: Service | undefined;
}

/**
 * Addresses of the user network are loopback addresses, which endpoints may not have: a set has no Service before one of
 * its machines has a real one. It then stays, also while all machines are hibernated.
 */
export function planService({ set, pods, service }: ObservedNames): ServicePlan {
  const { name = "", deletionTimestamp } = set.metadata;
  if (deletionTimestamp !== undefined || !canBeService(name)) return { kind: "none" };
  if (!service)
    return pods.some(hasRealAddress) ? { kind: "create", service: buildService(set) } : { kind: "none" };
  const wanted = buildSpec(name);
  const { selector, ports: current = [], publishNotReadyAddresses } = service.spec ?? {};
  const shown = current.map(({ name: portName, port }) => ({ name: portName, port }));
  const isSame =
    jsonEqual(selector ?? {}, wanted.selector) &&
    jsonEqual(shown, ports) &&
    publishNotReadyAddresses !== true;
  return isSame
    ? { kind: "none" }
    : { kind: "patch", body: { metadata: { uid: service.metadata.uid }, spec: wanted } };
}

function hasRealAddress({ metadata }: Pod): boolean {
  const ip = readText(metadata.annotations, annotation.ip, legacyAnnotation.ip);
  return ip !== "" && !ip.startsWith("127.");
}

function buildService(set: CustomObject): Service {
  const { name = "", namespace, uid = "" } = set.metadata;
  return {
    apiVersion: "v1",
    kind: "Service",
    metadata: {
      name,
      ...(namespace === undefined ? {} : { namespace }),
      labels: { [label.set]: name, [label.appName]: name },
      ownerReferences: [{ apiVersion, kind: "CocoonSet", name, uid, controller: true }],
    },
    spec: { clusterIP: "None", ...buildSpec(name) },
  };
}

function buildSpec(set: string) {
  return {
    selector: { [label.set]: set },
    ports: ports.map((port) => ({ ...port })),
    publishNotReadyAddresses: false,
  };
}
