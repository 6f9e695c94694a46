/** The web page. Its account has no role at all: whatever it does, it does with the token of the user who signed in. */
import { createHmac } from "node:crypto";
import type { Component } from "@cocoon/controlplane";
import { account } from "./identity.ts";
import { loopback, programPart, type PartContext, type PartPort } from "./part.ts";

/** Ports where parts offer their metrics. */
const metricsPorts: Readonly<Record<string, PartPort>> = {
  operator: "operatorMetrics",
  webhook: "webhookHealth",
  colocation: "colocationMetrics",
  registry: "registryHealth",
  gateway: "gatewayHealth",
  "vk-node-1": "node1Health",
  "vk-node-2": "node2Health",
  dashboard: "dashboardHealth",
};

const listenSetting = "DASHBOARD_LISTEN_ADDR";

export function dashboardPart(context: PartContext): Component {
  const { ports } = context;
  const targets = Object.entries(metricsPorts).map(
    ([name, port]) => `${name}=http://${loopback}:${ports[port]}/metrics`,
  );
  return programPart(context, {
    name: "dashboard",
    summary: "web page for sets and machines",
    needs: ["kube-apiserver"],
    program: "dashboard",
    account: account.dashboard,
    usesRegistry: true,
    env: {
      [listenSetting]: `${loopback}:${ports.dashboard}`,
      METRICS_ADDR: `${loopback}:${ports.dashboardHealth}`,
      DASHBOARD_METRICS_TARGETS: targets.join(","),
      DASHBOARD_GATEWAY: `http://{port}-{machine}.{namespace}.localhost:${ports.gateway}`,
    },
    secrets: { DASHBOARD_SESSION_KEY: deriveSessionKey(context) },
    healthPort: ports.dashboardHealth,
    stopGraceMs: 10_000,
  });
}

/** Users stay signed in when the part restarts, and no further file has to be kept secret. */
function deriveSessionKey({ registryToken }: PartContext): string {
  return createHmac("sha256", registryToken).update("sessions of the dashboard").digest("hex");
}

/** Where the page of a platform is; undefined for a platform without one. */
export function findDashboardUrl(components: readonly Component[]): string | undefined {
  const address = components.find(({ name }) => name === "dashboard")?.env?.[listenSetting];
  return address === undefined ? undefined : `http://${address}`;
}
