/**
 * Users of the cluster on their way to a port of a machine, people as well as accounts: by a token, or by the cookie that a link left.
 * The API server says whose the token is and what the user may do; the gateway then connects with its own rights.
 */
import { createHash } from "node:crypto";
import type { IncomingMessage } from "node:http";
import type { Abortable } from "@cocoon/core";
import { findAccessRefusal, findTokenUser, type KubeConnection, type KubeUser } from "@cocoon/kube";
import { TrafficError } from "./data-plane.ts";
import { ExpiringMap } from "./expiring-map.ts";
import { readPortCookies } from "./port-cookie.ts";
import type { PortPasses } from "./port-pass.ts";
import type { MachineTarget } from "./target.ts";

/** How long an answer of the API server is believed. */
const believedMs = 10_000;
const lookupMs = 10_000;
const maxTokenLength = 16_384;

export class Visitors {
  readonly #client: KubeConnection;
  readonly #passes: PortPasses;
  readonly #users = new ExpiringMap<KubeUser | undefined>(believedMs);
  readonly #refusals = new ExpiringMap<string | undefined>(believedMs);

  constructor(client: KubeConnection, passes: PortPasses) {
    this.#client = client;
    this.#passes = passes;
  }

  /** Undefined for a token that the API server does not know. */
  async findUser(token: string): Promise<KubeUser | undefined> {
    if (token === "" || token.length > maxTokenLength || !/^[\w.~+/=-]+$/.test(token)) return undefined;
    const key = createHash("sha256").update(token).digest("base64");
    return this.#users.get(key, () => findTokenUser(this.#client, token, deadline()));
  }

  /** Whose cookie the request carries. Throws 403 when the page of another site, or of another machine, sent it. */
  findCookieUser(request: IncomingMessage, target: MachineTarget): KubeUser | undefined {
    for (const text of readPortCookies(request)) {
      const pass = this.#passes.tryRead(text, "cookie", target);
      if (!pass) continue;
      assertOwnPage(request);
      return pass.user;
    }
    return undefined;
  }

  /** Throws 403 unless the user may read the pod and forward its ports. */
  async assertMayConnect(user: KubeUser, target: MachineTarget): Promise<void> {
    const { namespace, machine: name } = target;
    const needed = [
      { verb: "get", resource: "pods" },
      { verb: "create", resource: "pods", subresource: "portforward" },
    ];
    for (const right of needed) {
      const resourceAttributes = { namespace, name, version: "v1", ...right };
      const key = JSON.stringify([user, resourceAttributes]);
      const refusal = await this.#refusals.get(key, () =>
        findAccessRefusal(this.#client, { user, attributes: { resourceAttributes } }, deadline()),
      );
      if (refusal === undefined) continue;
      const what = `${right.verb} ${right.resource}${right.subresource ? `/${right.subresource}` : ""}`;
      const who = user.username ?? "";
      throw new TrafficError(403, `user ${who} may not ${what} of ${namespace}/${name}: ${refusal}`);
    }
  }
}

/** Not the caller's own signal: others wait for the same answer. */
function deadline(): Abortable {
  return { signal: AbortSignal.timeout(lookupMs) };
}

/** Machines of a domain are one site to a browser, so the cookie alone does not tell which page asks. */
function assertOwnPage({ headers, method }: IncomingMessage): void {
  const { origin, host } = headers;
  const authority = host ?? headers[":authority"];
  if (origin !== undefined && URL.parse(origin)?.host !== authority)
    throw new TrafficError(403, "the request comes from the page of another host");
  const site = headers["sec-fetch-site"];
  if (site === undefined || site === "same-origin" || site === "none") return;
  const isLink = method === "GET" && headers["sec-fetch-mode"] === "navigate";
  if (!isLink || headers["sec-fetch-dest"] !== "document")
    throw new TrafficError(403, "the request comes from the page of another host");
}
