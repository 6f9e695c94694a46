/** Which sandbox and port a request is for: by headers, or by the first label of the host name. */
import type { IncomingMessage } from "node:http";
import { ApiError } from "../http/answer.ts";

export interface TrafficTarget {
  readonly id: string;
  readonly port: number;
}

/** Undefined: a request for the control API. */
export function tryReadTarget({ headers }: Pick<IncomingMessage, "headers">): TrafficTarget | undefined {
  const id = headers["e2b-sandbox-id"];
  const port = headers["e2b-sandbox-port"];
  if (id !== undefined || port !== undefined) {
    if (typeof id !== "string" || typeof port !== "string")
      throw new ApiError(400, `missing header ${id === undefined ? "E2b-Sandbox-Id" : "E2b-Sandbox-Port"}`);
    return { id: checkId(id), port: checkPort(port) };
  }
  const label = /^([0-9]+)-([^.:]+)\./.exec(headers.host ?? "");
  if (!label) return undefined;
  const [, labelPort = "", labelId = ""] = label;
  return { id: checkId(labelId.split("-", 1)[0] ?? ""), port: checkPort(labelPort) };
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
