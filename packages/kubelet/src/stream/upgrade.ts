/** Answering an HTTP upgrade request by hand. */
import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { Fault } from "@cocoon/core";

export interface UpgradeRequest {
  readonly request: IncomingMessage;
  readonly socket: Duplex;
  readonly head: Buffer;
}

export function isWebSocket(request: IncomingMessage): boolean {
  return (request.headers.upgrade ?? "").toLowerCase() === "websocket";
}

/** All values of a header: as separate lines, as the API server sends them, or as comma lists. */
export function headerValues(request: IncomingMessage, name: string): string[] {
  const values: string[] = [];
  for (let index = 0; index + 1 < request.rawHeaders.length; index += 2) {
    if (request.rawHeaders[index]?.toLowerCase() !== name) continue;
    values.push(...(request.rawHeaders[index + 1] ?? "").split(",").map((value) => value.trim()));
  }
  return values.filter((value) => value !== "");
}

const reasons: Readonly<Record<number, string>> = {
  400: "Bad Request",
  401: "Unauthorized",
  403: "Forbidden",
  404: "Not Found",
  500: "Internal Server Error",
  501: "Not Implemented",
  503: "Service Unavailable",
};

/** Refuses the upgrade; kubectl shows the body after "unable to upgrade connection". */
export function refuseUpgrade(
  { socket }: UpgradeRequest,
  fault: Fault,
  headers: Readonly<Record<string, string>> = {},
): void {
  const status = fault.traits.status;
  const lines = [
    `HTTP/1.1 ${status} ${reasons[status] ?? "Error"}`,
    "Connection: close",
    "Content-Type: text/plain; charset=utf-8",
    `Content-Length: ${Buffer.byteLength(fault.message)}`,
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
  ];
  if (socket.writable) socket.end(`${lines.join("\r\n")}\r\n\r\n${fault.message}`);
}

/** Chooses the first of ours that the client offers, and switches to SPDY; refuses and returns undefined otherwise. */
export function switchToSpdy(upgrade: UpgradeRequest, supported: readonly string[]): string | undefined {
  const { request, socket } = upgrade;
  if ((request.headers.upgrade ?? "").toLowerCase() !== "spdy/3.1") {
    refuseUpgrade(
      upgrade,
      new Fault("badRequest", "unable to upgrade: expected SPDY/3.1 or websocket in the Upgrade header"),
    );
    return undefined;
  }
  const offered = headerValues(request, "x-stream-protocol-version");
  const chosen = supported.find((version) => offered.includes(version));
  if (!chosen) {
    const text =
      offered.length === 0
        ? "X-Stream-Protocol-Version is missing"
        : `none of ${offered.join(", ")} is supported`;
    const fault = new Fault(offered.length === 0 ? "badRequest" : "forbidden", text);
    refuseUpgrade(upgrade, fault, { "X-Accepted-Stream-Protocol-Versions": supported.join(", ") });
    return undefined;
  }
  socket.write(
    `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: ${chosen}\r\n\r\n`,
  );
  return chosen;
}
