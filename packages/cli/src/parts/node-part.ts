/** A virtual node: its pods are machines on this host. Each node has machines and addresses of its own. */
import { join } from "node:path";
import type { Component } from "@cocoon/controlplane";
import { applyManifests, readManifests } from "./apply.ts";
import { account, partKubeconfig } from "./identity.ts";
import { probeHealth } from "./probe-health.ts";
import {
  loopback,
  programArguments,
  programEnvironment,
  registryAccess,
  sourceFile,
  type PartContext,
} from "./part.ts";

export const nodeNumbers = [1, 2] as const;
export type NodeNumber = (typeof nodeNumbers)[number];

export function nodeDirectory({ directory }: Pick<PartContext, "directory">, number: NodeNumber): string {
  return join(directory, `node-${number}`);
}

/** The nodes of one machine share their images; each machine has files of its own. */
export function imageDirectory({ directory }: Pick<PartContext, "directory">): string {
  return join(directory, "images");
}

export function nodePart(context: PartContext, number: NodeNumber): Component {
  const { ports, pki, path } = context;
  const registry = registryAccess(context);
  const health = ports[`node${number}Health`];
  const { certificate, key } = pki.leaf.components;
  return {
    name: `vk-node-${number}`,
    summary: "a node whose pods are machines",
    needs: ["kube-apiserver", "registry"],
    command: process.execPath,
    args: programArguments("vk"),
    env: {
      ...programEnvironment(context),
      PATH: path,
      KUBECONFIG: partKubeconfig(context, account.node),
      VK_NODE_NAME: `cocoon-${number}`,
      VK_NODE_IP: loopback,
      VK_KUBELET_HOST: loopback,
      VK_KUBELET_PORT: String(ports[`node${number}`]),
      VK_METRICS_ADDR: `${loopback}:${health}`,
      VK_TLS_CERT: certificate,
      VK_TLS_KEY: key,
      VK_USER_SUBNET: `127.${100 + number}.0.0/16`,
      COCOON_ROOT_DIR: nodeDirectory(context, number),
      COCOON_IMAGE_DIR: imageDirectory(context),
      ...registry.env,
    },
    ...(registry.secrets ? { secrets: registry.secrets } : {}),
    prepare: async (options) => {
      const files = [
        sourceFile("deploy", "operator", "namespace.yaml"),
        sourceFile("deploy", "vk", "rbac.yaml"),
      ];
      await applyManifests(context, await readManifests(...files), options);
    },
    probe: (options) => probeHealth(health, options),
    stopGraceMs: 20_000,
  };
}
