/** What plugins are told of a machine beside its namespace: whose it is, its ports of the host, its limits. Pure. */
import { Fault } from "@cocoon/core";
import type { NetworkRequest } from "@cocoon/vm";

type Spec = NetworkRequest["spec"];

/** As Kubernetes' runtimes pass it; plugins that look pods up (Calico, Cilium) find them by it. */
export function formatArgs({
  vmId,
  vmName,
  pod,
}: {
  readonly vmId: string;
  readonly vmName: string;
  readonly pod: Spec["pod"];
}): string {
  const pairs = {
    IgnoreUnknown: "1",
    K8S_POD_NAMESPACE: pod?.namespace ?? "",
    K8S_POD_NAME: pod?.name ?? vmName,
    K8S_POD_INFRA_CONTAINER_ID: vmId,
    K8S_POD_UID: pod?.uid ?? "",
  };
  return Object.entries(pairs)
    .filter(([, value]) => value !== "")
    .map(([key, value]) => `${key}=${assertPlain(key, value)}`)
    .join(";");
}

/** CNI_ARGS knows no quoting. */
function assertPlain(key: string, value: string): string {
  if (/[;=\s]/.test(value)) throw new Fault("invalid", `${key} "${value}" cannot be passed to CNI plugins`);
  return value;
}

/** Plugins get only what their configuration says that they are capable of. */
export function formatRuntimeConfig({ hostPorts = [], bandwidth }: Spec): Record<string, unknown> {
  const { ingressBitsPerSecond: ingress, egressBitsPerSecond: egress } = bandwidth ?? {};
  return {
    ...(hostPorts.length > 0
      ? {
          portMappings: hostPorts.map(({ hostPort, guestPort, protocol, hostIp }) => ({
            hostPort,
            containerPort: guestPort,
            protocol,
            ...(hostIp ? { hostIP: hostIp } : {}),
          })),
        }
      : {}),
    ...(ingress !== undefined || egress !== undefined
      ? {
          bandwidth: {
            ...(ingress === undefined ? {} : { ingressRate: ingress, ingressBurst: burst(ingress) }),
            ...(egress === undefined ? {} : { egressRate: egress, egressBurst: burst(egress) }),
          },
        }
      : {}),
  };
}

/** In bits. A tenth of a second: less stalls large segments, more is no limit for short transfers. */
function burst(bitsPerSecond: number): number {
  return Math.max(Math.ceil(bitsPerSecond / 10), 512 * 1024);
}
