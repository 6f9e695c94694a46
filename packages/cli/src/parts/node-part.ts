/** A virtual node: its pods are machines on this host. Each node has machines and addresses of its own. */
import { join } from "node:path";
import type { Component } from "@cocoon/controlplane";
import { applyFiles } from "./apply.ts";
import { account } from "./identity.ts";
import { dnsServiceAddress, type NodeNumber } from "../network/topology.ts";
import { nodeConfDirectory, placeInNode } from "./cluster-network.ts";
import { loopback, programPart, type PartContext } from "./part.ts";

export function nodeDirectory({ directory }: Pick<PartContext, "directory">, number: NodeNumber): string {
  return join(directory, `node-${number}`);
}

/** The nodes of one machine share their images; each machine has files of its own. */
export function imageDirectory({ directory }: Pick<PartContext, "directory">): string {
  return join(directory, "images");
}

/**
 * Programs such as QEMU are found on the PATH that it inherits. PATH is not one of its settings: a shell with another one
 * must not make `up` restart the node.
 */
export function nodePart(context: PartContext, number: NodeNumber): Component {
  const { ports, pki, settings } = context;
  const healthPort = ports[`node${number}Health`];
  const { certificate, key } = pki.leaf.components;
  const isConnected = settings.network === "cni";
  const part = programPart(context, {
    name: `vk-node-${number}`,
    summary: `the kubelet of node cocoon-${number}, whose pods are machines`,
    needs: ["kube-apiserver", "registry", ...(isConnected ? ["relay"] : [])],
    program: "vk",
    account: account.node,
    usesRegistry: true,
    env: {
      VK_NODE_NAME: `cocoon-${number}`,
      VK_NODE_IP: loopback,
      VK_KUBELET_HOST: loopback,
      VK_KUBELET_PORT: String(ports[`node${number}`]),
      VK_METRICS_ADDR: `${loopback}:${healthPort}`,
      VK_TLS_CERT: certificate,
      VK_TLS_KEY: key,
      VK_NETWORK: settings.network,
      ...(isConnected
        ? { VK_CNI_CONF_DIR: nodeConfDirectory(context, number), VK_CLUSTER_DNS: dnsServiceAddress }
        : {}),
      VK_USER_SUBNET: `127.${100 + number}.0.0/16`,
      COCOON_ROOT_DIR: nodeDirectory(context, number),
      COCOON_IMAGE_DIR: imageDirectory(context),
      COCOON_SNAPSHOT_FORMAT: "packed", // all readers are ours
    },
    prepare: (options) =>
      applyFiles(context, ["operator/namespace.yaml", "vk/rbac.yaml", "vk/runtime-class.yaml"], options),
    healthPort,
    stopGraceMs: 20_000,
  });
  return isConnected ? placeInNode(context, number, part) : part;
}
