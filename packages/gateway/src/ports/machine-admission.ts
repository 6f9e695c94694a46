/** Which requests reach a machine: those of callers with rights on its pod, or all where its set opened the port. */
import type { IncomingMessage } from "node:http";
import { isFault, type Abortable } from "@cocoon/core";
import { guestPort } from "../guest/protocol.ts";
import type { Authenticator } from "../tenants/authenticate.ts";
import { sandboxNotFound, TrafficError } from "./data-plane.ts";
import type { MachineAccess } from "./machine-access.ts";
import type { Route } from "./route.ts";
import type { MachineTarget } from "./target.ts";
import type { Visitors } from "./visitors.ts";
import type { WakeGate } from "./wake-gate.ts";

export interface MachineAdmissionOptions {
  readonly machines: MachineAccess;
  readonly authenticator: Authenticator;
  readonly visitors: Visitors;
  readonly gate: WakeGate<void>;
}

export class MachineAdmission {
  readonly #options: MachineAdmissionOptions;

  constructor(options: MachineAdmissionOptions) {
    this.#options = options;
  }

  async admit(request: IncomingMessage, target: MachineTarget, { signal }: Abortable): Promise<Route> {
    // What serves the gateway in a guest takes orders from the gateway alone.
    if (target.port === guestPort) throw sandboxNotFound();
    const user = await this.#identify(request, target, { signal });
    const { machines, gate } = this.#options;
    const route: Route = {
      connect: (options) => machines.connect(target, { user, ...options }),
      track: () => new AbortController(),
    };
    try {
      if ((await machines.readState(target, { user, signal })) === "ready") return route;
      const key = `${target.namespace}/${target.machine}`;
      const { turn } = await gate.pass({ key, wake: (options) => machines.wake(target, options), signal });
      return { ...route, turn };
    } catch (error) {
      if (isFault(error, "forbidden")) throw new TrafficError(403, error.message);
      throw error;
    }
  }

  /** Whom the gateway acts as: an account, or undefined for itself, where the rights of a user were checked. */
  async #identify(
    request: IncomingMessage,
    target: MachineTarget,
    options: Abortable,
  ): Promise<string | undefined> {
    const { machines, visitors } = this.#options;
    const token = request.headers["cocoon-token"];
    if (typeof token === "string") {
      const caller = await this.#options.authenticator.identify(token, options);
      if ("account" in caller) return caller.account;
      await visitors.assertMayConnect(caller.person, target, options);
      return undefined;
    }
    const user = visitors.findCookieUser(request, target);
    if (!user) return machines.requirePublic(target);
    await visitors.assertMayConnect(user, target, options);
    return undefined;
  }
}
