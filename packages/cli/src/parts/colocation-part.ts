/** The colocation webhooks. They make and renew their certificate and register themselves; nothing asks for them to be used. */
import { documentedGates } from "@cocoon/colocation";
import type { Component } from "@cocoon/controlplane";
import { applyManifests, createMissing, readManifests } from "./apply.ts";
import { account, partKubeconfig } from "./identity.ts";
import { loopback, programArguments, programEnvironment, sourceFile, type PartContext } from "./part.ts";
import { probeHealth } from "./probe-health.ts";

export function colocationPart(context: PartContext): Component {
  const { ports } = context;
  return {
    name: "colocation",
    summary: "batch pods, quotas, reservations, as Koordinator's webhooks",
    needs: ["kube-apiserver"],
    command: process.execPath,
    args: programArguments(
      "colocation",
      `--webhook-bind=${loopback}`,
      `--webhook-host=${loopback}`,
      `--webhook-port=${ports.colocation}`,
      `--metrics-addr=${loopback}:${ports.colocationMetrics}`,
      `--health-probe-addr=${loopback}:${ports.colocationHealth}`,
      `--feature-gates=${documentedGates.map((gate) => `${gate}=true`).join(",")}`,
    ),
    env: {
      ...programEnvironment(context),
      KUBECONFIG: partKubeconfig(context, account.colocation),
      POD_NAMESPACE: account.colocation.namespace,
    },
    prepare: async (options) => {
      const files = ["namespace", "crds", "priority-classes", "rbac"].map((name) =>
        sourceFile("deploy", "colocation", `${name}.yaml`),
      );
      await applyManifests(context, await readManifests(...files), options);
      // Ours to begin with, then the administrator's; and once registered, our own webhook would have to allow it.
      const settings = await readManifests(sourceFile("deploy", "colocation", "slo-controller-config.yaml"));
      await createMissing(context, settings, options);
    },
    probe: (options) => probeHealth(ports.colocationHealth, options),
    stopGraceMs: 20_000,
  };
}
