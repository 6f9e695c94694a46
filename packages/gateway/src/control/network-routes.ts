/** Where a sandbox may connect to. */
import { ApiError, sendEmpty } from "../http/answer.ts";
import type { Egress } from "../sandboxes/egress.ts";
import { readEgressRules, type EgressRequest, type EgressRules } from "../sandboxes/egress-rules.ts";
import { updateNetwork, type EgressParts } from "../sandboxes/egress-sets.ts";
import { parseSandboxId } from "../sandboxes/ids.ts";
import type { SandboxStore } from "../sandboxes/store.ts";
import { refuseNetworkFields } from "./refusals.ts";
import type { Routes } from "./router.ts";
import { networkBody, parseBody } from "./shapes.ts";

/** Undefined where nothing is denied. Throws 400 for what is not offered, and where no node would enforce it. */
export async function planEgress(egress: Egress, request: EgressRequest): Promise<EgressRules | undefined> {
  const rules = readEgressRules(request);
  const field = request.internet === false ? "allow_internet_access" : "network.denyOut";
  if (rules) await egress.assertEnforced(field);
  return rules;
}

export function buildNetworkRoutes(parts: EgressParts & { readonly store: SandboxStore }): Routes {
  return {
    /** Replaces all rules: a field that is left out is cleared. */
    "PUT /sandboxes/{id}/network": async (call) => {
      const { allow_internet_access: internet, ...network } = parseBody(networkBody, call.body);
      refuseNetworkFields(network);
      const rules = await planEgress(parts.egress, { ...network, internet });
      const { tenant } = call;
      const sandbox = await parts.store.require(tenant, parseSandboxId(call.parameter("id")), call);
      if (sandbox.state === "paused") throw new ApiError(404, `Sandbox ${sandbox.id} is not running`);
      const { allowPublicTraffic } = sandbox.spec.network ?? {};
      const kept = allowPublicTraffic === undefined ? {} : { allowPublicTraffic };
      const own = typeof internet === "boolean" ? { internet } : {};
      const change = { tenant, sandbox, rules, network: { ...network, ...kept }, ...own };
      await updateNetwork(parts, change, call);
      sendEmpty(call.response, 204);
    },
  };
}
