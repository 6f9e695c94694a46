/** The gateway: sandboxes for the E2B SDKs. It speaks plain HTTP on the loopback address, as the SDKs do without names. */
import type { Component } from "@cocoon/controlplane";
import { applyFiles } from "./apply.ts";
import { account } from "./identity.ts";
import { loopback, programPart, type PartContext } from "./part.ts";

export function gatewayPart(context: PartContext): Component {
  const { ports, settings } = context;
  return programPart(context, {
    name: "gateway",
    summary: "sandboxes for the E2B SDKs, and traffic to their ports",
    needs: ["kube-apiserver", "operator", "registry"],
    program: "gateway",
    account: account.gateway,
    usesRegistry: true,
    env: {
      GATEWAY_LISTEN_ADDR: `${loopback}:${ports.gateway}`,
      GATEWAY_METRICS_ADDR: `${loopback}:${ports.gatewayHealth}`,
      ...(settings.agentSandbox ? { GATEWAY_SANDBOX_ROUTER_ADDR: `${loopback}:${ports.sandboxRouter}` } : {}),
    },
    prepare: (options) => applyFiles(context, ["operator/namespace.yaml", "gateway/rbac.yaml"], options),
    healthPort: ports.gatewayHealth,
    stopGraceMs: 20_000,
  });
}
