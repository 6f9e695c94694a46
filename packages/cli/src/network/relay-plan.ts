/** Which loopback listeners a relay joins across network namespaces, as words of a command line. Pure. */
import { Fault } from "@cocoon/core";

export interface RelayRoute {
  readonly netns: string;
  readonly host: string;
  readonly port: number;
}

export interface RelayPlan {
  /** Ports of the host's loopback address that lead to the same port in a namespace. */
  readonly inward: readonly RelayRoute[];
  /** Addresses in a namespace that lead to the same port of the host's loopback address. */
  readonly outward: readonly RelayRoute[];
}

export function formatRoute({ netns, host, port }: RelayRoute): string {
  return `${netns}=${host}:${port}`;
}

export function parseRoute(text: string): RelayRoute {
  const [, netns, host, digits] = /^([\w.-]+)=(\d+\.\d+\.\d+\.\d+):(\d{1,5})$/.exec(text) ?? [];
  const port = Number(digits);
  if (netns === undefined || host === undefined || port < 1 || port > 65_535)
    throw new Fault("badRequest", `"${text}" is not a route; write NAMESPACE=ADDRESS:PORT`);
  return { netns, host, port };
}
