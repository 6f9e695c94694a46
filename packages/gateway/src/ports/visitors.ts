/**
 * Users of the cluster on their way to a port of a machine, people as well as accounts: by a token, or by the cookie that a link left.
 * The API server says whose the token is and what the user may do; the gateway then connects with its own rights.
 */
import type { IncomingMessage } from "node:http";
import type { Abortable } from "@cocoon/core";
import type { KubeUser } from "@cocoon/kube";
import { ApiError } from "../http/answer.ts";
import type { Authenticator } from "../tenants/authenticate.ts";
import { TrafficError } from "./data-plane.ts";
import { readPortCookies } from "./port-cookie.ts";
import type { PortPasses } from "./port-pass.ts";
import type { MachineTarget } from "./target.ts";

export class Visitors {
  readonly #authenticator: Pick<Authenticator, "findUser" | "rights">;
  readonly #passes: PortPasses;

  constructor(authenticator: Pick<Authenticator, "findUser" | "rights">, passes: PortPasses) {
    this.#authenticator = authenticator;
    this.#passes = passes;
  }

  /** Undefined for a token that the API server does not know. */
  findUser(token: string, options: Abortable): Promise<KubeUser | undefined> {
    return this.#authenticator.findUser(token, options);
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
  async assertMayConnect(user: KubeUser, target: MachineTarget, options: Abortable): Promise<void> {
    const { namespace, machine: name } = target;
    const pod = { group: "", resource: "pods", name };
    const rights = [
      { ...pod, verb: "get" },
      { ...pod, verb: "create", subresource: "portforward" },
    ];
    try {
      await this.#authenticator.rights.assert(user, { namespace, rights }, options);
    } catch (error) {
      if (error instanceof ApiError) throw new TrafficError(error.status, error.message);
      throw error;
    }
  }
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
