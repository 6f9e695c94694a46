/**
 * Requests that another site made a browser send are refused: cookies are same-site, and beside that every change needs a
 * header that a form cannot send, and the page's own origin.
 */
import type { IncomingMessage } from "node:http";
import { Fault } from "@cocoon/core";

const requestHeader = "x-cocoon-dashboard";

const reading = new Set(["GET", "HEAD"]);

/** Throws `forbidden` for what did not come from our page. `upgrade`: a WebSocket, which has no custom headers. */
export function assertSameOrigin(request: IncomingMessage, { upgrade = false } = {}): void {
  const { origin, host } = request.headers;
  const site = request.headers["sec-fetch-site"];
  if (site !== undefined && site !== "same-origin" && site !== "none") throw foreign(`${site} request`);
  if (origin !== undefined && !isOrigin(origin, host)) throw foreign("origin");
  if (upgrade && origin === undefined) throw foreign("missing origin");
  const isChange = !reading.has(request.method ?? "GET");
  if (isChange && request.headers[requestHeader] === undefined)
    throw foreign(`missing header ${requestHeader}`);
}

function isOrigin(origin: string, host: string | undefined): boolean {
  const url = URL.parse(origin);
  return url !== null && /^https?:$/.test(url.protocol) && url.host === host;
}

function foreign(why: string): Fault {
  return new Fault("forbidden", `the request does not come from this page (${why})`);
}
