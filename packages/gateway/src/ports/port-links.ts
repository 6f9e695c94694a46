/**
 * Links that open a port of a machine in a browser, at the host of the port itself:
 *
 *   POST /.cocoon/links            with Cocoon-Token: { path }, which works once, within a minute
 *   GET  /.cocoon/open?code=CODE   leaves a cookie for this port, and goes on to its page
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Abortable } from "@cocoon/core";
import { sendJson } from "../http/answer.ts";
import { guestPort } from "../guest/protocol.ts";
import { sandboxNotFound, sendTrafficError, TrafficError } from "./data-plane.ts";
import { formatPortCookie } from "./port-cookie.ts";
import type { PortPasses } from "./port-pass.ts";
import type { MachineTarget, TrafficTarget } from "./target.ts";
import type { Visitors } from "./visitors.ts";

const linksPath = "/.cocoon/links";
const openPath = "/.cocoon/open";
const linkMs = 60_000;
const cookieMs = 3_600_000;
/** Browsers drop longer cookies. */
const maxCookieLength = 3_900;
const maxUsed = 100_000;
const lookupMs = 20_000;

export class PortLinks {
  readonly #visitors: Visitors;
  readonly #passes: PortPasses;
  /** Codes that were exchanged, until they would have ended anyway. Each replica has its own. */
  readonly #used = new Map<string, number>();

  constructor(visitors: Visitors, passes: PortPasses) {
    this.#visitors = visitors;
    this.#passes = passes;
  }

  /** Whether the request was one of these, and is answered. */
  async tryServe(
    request: IncomingMessage,
    response: ServerResponse,
    target: TrafficTarget,
  ): Promise<boolean> {
    const url = URL.parse(request.url ?? "/", "http://gateway");
    const isLink = request.method === "POST" && url?.pathname === linksPath;
    const isOpen = request.method === "GET" && url?.pathname === openPath;
    if (target.kind !== "machine" || (!isLink && !isOpen)) return false;
    try {
      if (isLink) await this.#create(request, response, target);
      else await this.#open(request, response, { target, code: url?.searchParams.get("code") ?? "" });
    } catch (error) {
      if (!(error instanceof TrafficError)) throw error;
      sendTrafficError(response, error, target);
    }
    return true;
  }

  async #create(request: IncomingMessage, response: ServerResponse, target: MachineTarget): Promise<void> {
    if (target.port === guestPort) throw sandboxNotFound();
    const user = await this.#visitors.findUser(String(request.headers["cocoon-token"] ?? ""), deadline());
    if (!user) throw new TrafficError(401, "Cocoon-Token: a token of the Kubernetes API is needed");
    await this.#visitors.assertMayConnect(user, target, deadline());
    const code = this.#passes.issue({ purpose: "link", user, target, lifeMs: linkMs });
    if (code.length > maxCookieLength)
      throw new TrafficError(403, "the user is in too many groups for a cookie; use kubectl port-forward");
    sendJson(response, 200, { path: `${openPath}?code=${code}` }, { "cache-control": "no-store" });
  }

  async #open(
    request: IncomingMessage,
    response: ServerResponse,
    { target, code }: { readonly target: MachineTarget; readonly code: string },
  ): Promise<void> {
    const pass = this.#passes.tryRead(code, "link", target);
    if (!pass || !this.#use(pass.id, pass.endsAt))
      throw new TrafficError(403, "the link was used or has ended; open the port from the dashboard again");
    await this.#visitors.assertMayConnect(pass.user, target, deadline());
    const value = this.#passes.issue({ purpose: "cookie", user: pass.user, target, lifeMs: cookieMs });
    response.writeHead(303, {
      location: "/",
      "set-cookie": formatPortCookie(request, value, cookieMs / 1000),
      "cache-control": "no-store",
      "referrer-policy": "no-referrer",
    });
    response.end();
  }

  /** False when it was used before. */
  #use(id: string, endsAt: number): boolean {
    if (this.#used.has(id)) return false;
    const now = Date.now();
    for (const [each, until] of this.#used) {
      if (until > now) break; // in the order of their ends, more or less
      this.#used.delete(each);
    }
    if (this.#used.size >= maxUsed) throw new TrafficError(503, "too many links at once; try again", 60);
    this.#used.set(id, endsAt);
    return true;
  }
}

function deadline(): Abortable {
  return { signal: AbortSignal.timeout(lookupMs) };
}
