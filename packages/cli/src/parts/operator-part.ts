/** The operator, with its definitions and rights from deploy/. */
import { systemNamespace } from "@cocoon/contract";
import type { Component } from "@cocoon/controlplane";
import { applyFiles } from "./apply.ts";
import { account } from "./identity.ts";
import { loopback, programPart, type PartContext } from "./part.ts";

export function operatorPart(context: PartContext): Component {
  const { ports, settings } = context;
  return programPart(context, {
    name: "operator",
    summary: "reconciles CocoonSets and CocoonHibernations",
    needs: ["kube-apiserver", "registry"],
    program: "operator",
    account: account.operator,
    usesRegistry: true,
    env: {
      POD_NAMESPACE: systemNamespace,
      // The only replica: an API server that is down for a while must not cost it a lease.
      LEADER_ELECT: "false",
      METRICS_ADDR: `${loopback}:${ports.operatorMetrics}`,
      PROBE_ADDR: `${loopback}:${ports.operatorHealth}`,
      ...(settings.legacy ? { LEGACY_API: "on" } : {}),
      ...(settings.agentSandbox ? { AGENT_SANDBOX: "true" } : {}),
    },
    prepare: (options) =>
      applyFiles(
        context,
        [
          ...["cocoonsets", "cocoonhibernations", "cocoonsnapshotgrants"].map(
            (name) => `crds/cocoonset.cocoonstack.io_${name}.yaml`,
          ),
          ...["namespace", "service-account", "rbac"].map((name) => `operator/${name}.yaml`),
          ...(settings.legacy ? ["crd.yaml", "operator/legacy/rbac.yaml"] : []),
          ...(settings.agentSandbox
            ? ["sandbox-crds", "pod-snapshot-crds", "rbac"].map((name) => `agent-sandbox/${name}.yaml`)
            : []),
        ],
        options,
      ),
    healthPort: ports.operatorHealth,
  });
}
