/** The cookie of a port of a machine. It is the gateway's: the guest never sees it. */
import type { IncomingMessage } from "node:http";
import type { TLSSocket } from "node:tls";

/** A page of another machine cannot set a cookie with this prefix for this host. It needs TLS. */
const secureName = "__Host-cocoon-port";
const plainName = "cocoon-port";

/** TLS may end at a proxy in front. */
function isSecure({ socket, headers }: IncomingMessage): boolean {
  return Boolean((socket as Partial<TLSSocket>).encrypted) || headers["x-forwarded-proto"] === "https";
}

export function formatPortCookie(request: IncomingMessage, value: string, lifeSeconds: number): string {
  const isTls = isSecure(request);
  const attributes = `Path=/; Max-Age=${lifeSeconds}; HttpOnly; SameSite=Lax${isTls ? "; Secure" : ""}`;
  return `${isTls ? secureName : plainName}=${value}; ${attributes}`;
}

/** All that were sent: without TLS a page of a neighbour may have added one, which is then not signed for this port. */
export function readPortCookies({ headers }: Pick<IncomingMessage, "headers">): string[] {
  return splitCookies(headers.cookie).flatMap((each) => {
    const [name = "", ...value] = each.split("=");
    return isOurs(name) ? [value.join("=")] : [];
  });
}

/** Undefined when nothing is left. */
export function withoutPortCookies(header: string): string | undefined {
  const kept = splitCookies(header).filter((each) => !isOurs(each.split("=", 1)[0] ?? ""));
  return kept.length === 0 ? undefined : kept.join("; ");
}

function isOurs(name: string): boolean {
  return name === secureName || name === plainName;
}

function splitCookies(header = ""): string[] {
  return header
    .split(";")
    .map((each) => each.trim())
    .filter((each) => each !== "");
}
