/**
 * Which sandbox or machine, and which port, a request is for: by headers on any host, else by the labels before the domain,
 * `{port}-{sandbox}.{domain}` and `{port}-{machine}.{namespace}.{domain}`.
 * Without a domain machines are below `localhost`, which every browser takes for its own host.
 */
import type { IncomingMessage } from "node:http";
import { isDnsLabel } from "@cocoon/contract";
import { ApiError } from "../http/answer.ts";

export interface SandboxTarget {
  readonly kind: "sandbox";
  readonly id: string;
  readonly port: number;
}

export interface MachineTarget {
  readonly kind: "machine";
  readonly namespace: string;
  /** Name of its pod. */
  readonly machine: string;
  readonly port: number;
}

export type TrafficTarget = SandboxTarget | MachineTarget;

/** Undefined: a request for the control API. `domain` may carry a port. */
export function tryReadTarget(
  { headers }: Pick<IncomingMessage, "headers">,
  domain = "localhost",
): TrafficTarget | undefined {
  const host = (headers.host ?? "").replace(/:\d+$/, "");
  return (
    readSandboxHeaders(headers) ??
    readMachineHeaders(headers) ??
    readMachineHost(host, domain.replace(/:\d+$/, "")) ??
    readSandboxHost(host)
  );
}

type Headers = IncomingMessage["headers"];

function readSandboxHeaders(headers: Headers): SandboxTarget | undefined {
  const id = headers["e2b-sandbox-id"];
  const port = headers["e2b-sandbox-port"];
  if (id === undefined && port === undefined) return undefined;
  if (typeof id !== "string" || typeof port !== "string")
    throw new ApiError(400, `missing header ${id === undefined ? "E2b-Sandbox-Id" : "E2b-Sandbox-Port"}`);
  return { kind: "sandbox", id: checkId(id), port: checkPort(port) };
}

function readMachineHeaders(headers: Headers): MachineTarget | undefined {
  const name = headers["cocoon-machine"];
  const port = headers["cocoon-port"];
  if (name === undefined && port === undefined) return undefined;
  if (typeof name !== "string" || typeof port !== "string")
    throw new ApiError(400, `missing header ${name === undefined ? "Cocoon-Machine" : "Cocoon-Port"}`);
  const [namespace = "", machine = "", ...rest] = name.split("/");
  if (rest.length > 0 || !isDnsLabel(namespace) || !isDnsLabel(machine))
    throw new ApiError(400, "Cocoon-Machine: write NAMESPACE/MACHINE");
  return { kind: "machine", namespace, machine, port: checkPort(port) };
}

function readMachineHost(host: string, domain: string): MachineTarget | undefined {
  if (!host.endsWith(`.${domain}`)) return undefined;
  const [first = "", namespace, ...rest] = host.slice(0, -domain.length - 1).split(".");
  const [, port = "", machine = ""] = /^([0-9]+)-(.+)$/.exec(first) ?? [];
  if (namespace === undefined || rest.length > 0 || machine === "") return undefined;
  if (!isDnsLabel(namespace) || !isDnsLabel(machine)) throw new ApiError(400, "Invalid host");
  return { kind: "machine", namespace, machine, port: checkPort(port) };
}

function readSandboxHost(host: string): SandboxTarget | undefined {
  const [, port, label = ""] = /^([0-9]+)-([^.:]+)\./.exec(host) ?? [];
  if (port === undefined) return undefined;
  return { kind: "sandbox", id: checkId(label.split("-", 1)[0] ?? ""), port: checkPort(port) };
}

function checkId(id: string): string {
  if (!/^[a-z0-9]{1,60}$/.test(id)) throw new ApiError(400, "Invalid sandbox ID");
  return id;
}

function checkPort(text: string): number {
  const port = Number(text);
  if (!/^\d+$/.test(text) || port < 1 || port > 65_535) throw new ApiError(400, "Invalid sandbox port");
  return port;
}
