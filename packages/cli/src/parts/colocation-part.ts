/** The colocation webhooks. They make and renew their certificate and register themselves; no part needs them. */
import { documentedGates } from "@cocoon/colocation";
import type { Component } from "@cocoon/controlplane";
import { applyFiles, createMissing } from "./apply.ts";
import { account } from "./identity.ts";
import { loopback, programPart, type PartContext } from "./part.ts";

export function colocationPart(context: PartContext): Component {
  const { ports } = context;
  return programPart(context, {
    name: "colocation",
    summary: "admits batch pods, quotas and reservations, as Koordinator's webhooks do",
    needs: ["kube-apiserver"],
    program: "colocation",
    account: account.colocation,
    args: [
      `--webhook-bind=${loopback}`,
      `--webhook-host=${loopback}`,
      `--webhook-port=${ports.colocation}`,
      `--metrics-addr=${loopback}:${ports.colocationMetrics}`,
      `--health-probe-addr=${loopback}:${ports.colocationHealth}`,
      `--feature-gates=${documentedGates.map((gate) => `${gate}=true`).join(",")}`,
    ],
    env: { POD_NAMESPACE: account.colocation.namespace },
    prepare: async (options) => {
      const names = ["namespace", "crds", "priority-classes", "rbac"];
      await applyFiles(
        context,
        names.map((name) => `colocation/${name}.yaml`),
        options,
      );
      // Ours to begin with, then the administrator's; and once registered, our own webhook would have to allow it.
      await createMissing(context, "colocation/slo-controller-config.yaml", options);
    },
    healthPort: ports.colocationHealth,
    stopGraceMs: 20_000,
  });
}
