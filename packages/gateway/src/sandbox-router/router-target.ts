/** Which Sandbox and port a request is for: headers `X-Sandbox-…`, checked as upstream's router checks them. */
import type { IncomingHttpHeaders } from "node:http";
import { isIP } from "node:net";
import { RouterError } from "./router-error.ts";

export interface RouterTarget {
  readonly namespace: string;
  readonly name: string;
  readonly port: number;
  /** Address that the client read from the Sandbox; it must be the Sandbox's. */
  readonly podIp: string | undefined;
  readonly uid: string | undefined;
}

const label = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;
const defaultPort = "8888";

export function readRouterTarget(headers: IncomingHttpHeaders): RouterTarget {
  const text = (name: string) => {
    const value = headers[name];
    return typeof value === "string" && value !== "" ? value : undefined;
  };
  const name = text("x-sandbox-id");
  if (name === undefined) throw new RouterError(400, "X-Sandbox-ID header is required.");
  if (!label.test(name)) throw new RouterError(400, "Invalid sandbox ID format.");
  const namespace = text("x-sandbox-namespace") ?? "default";
  if (!label.test(namespace)) throw new RouterError(400, "Invalid namespace format.");
  const portText = text("x-sandbox-port") ?? defaultPort;
  const port = Number(portText);
  if (!/^\d{1,5}$/.test(portText) || port < 1 || port > 65_535)
    throw new RouterError(400, "Invalid port format.");
  const podIp = text("x-sandbox-pod-ip");
  if (podIp !== undefined && isIP(podIp) === 0) throw new RouterError(400, "Invalid target IP address.");
  return { namespace, name, port, podIp, uid: text("x-sandbox-uid") };
}
