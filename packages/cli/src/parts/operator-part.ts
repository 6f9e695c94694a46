/** The operator, with its definitions and rights from deploy/. */
import { systemNamespace } from "@cocoon/contract";
import type { Component } from "@cocoon/controlplane";
import { applyManifests, readManifests } from "./apply.ts";
import { account, partKubeconfig } from "./identity.ts";
import {
  loopback,
  programArguments,
  programEnvironment,
  registryAccess,
  sourceFile,
  type PartContext,
} from "./part.ts";
import { probeHealth } from "./probe-health.ts";

export function operatorPart(context: PartContext): Component {
  const { ports } = context;
  const registry = registryAccess(context);
  return {
    name: "operator",
    summary: "keeps CocoonSets and CocoonHibernations as asked",
    needs: ["kube-apiserver", "registry"],
    command: process.execPath,
    args: programArguments("operator"),
    env: {
      ...programEnvironment(context),
      KUBECONFIG: partKubeconfig(context, account.operator),
      POD_NAMESPACE: systemNamespace,
      METRICS_ADDR: `${loopback}:${ports.operatorMetrics}`,
      PROBE_ADDR: `${loopback}:${ports.operatorHealth}`,
      ...registry.env,
    },
    ...(registry.secrets ? { secrets: registry.secrets } : {}),
    prepare: async (options) => {
      const definitions = ["cocoonsets", "cocoonhibernations", "cocoonsnapshotgrants"].map((name) =>
        sourceFile("deploy", "crds", `cocoonset.cocoonstack.io_${name}.yaml`),
      );
      const files = ["namespace", "service-account", "rbac"].map((name) =>
        sourceFile("deploy", "operator", `${name}.yaml`),
      );
      await applyManifests(context, await readManifests(...definitions, ...files), options);
    },
    probe: (options) => probeHealth(ports.operatorHealth, options),
  };
}
