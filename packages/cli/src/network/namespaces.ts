/** Makes and removes the namespaces of the platform's network. All steps are repeatable. */
import { rm } from "node:fs/promises";
import { isFault, pathExists, type Abortable } from "@cocoon/core";
import { runTool } from "@cocoon/vm/host";
import {
  buildRouterRules,
  controlPlaneAddress,
  formatNetnsPath,
  type NodeLink,
  type Topology,
} from "./topology.ts";

/** What an interrupted command left incomplete is made anew; what is complete stays, with whatever runs in it. */
export async function ensureNamespaces(
  topology: Topology,
  { apiserverPort, signal }: Abortable & { readonly apiserverPort: number },
): Promise<void> {
  const options = { signal };
  if (!(await isComplete(topology, options))) {
    await removeNamespaces(topology, options);
    await build(topology, options);
  }
  const rules = buildRouterRules(apiserverPort);
  await runTool("ip", ["netns", "exec", topology.router, "nft", "-f", "-"], { ...options, input: rules });
}

/** Their interfaces go with them. Processes in them keep what they have until they end. */
export async function removeNamespaces(topology: Topology, options: Abortable): Promise<void> {
  for (const name of listNames(topology)) {
    const path = formatNetnsPath(name);
    if (!(await pathExists(path))) continue;
    // A name without a namespace is left when its maker dies between the two.
    await runTool("ip", ["netns", "delete", name], options).catch((error: unknown) => {
      if (!isFault(error, "internal")) throw error;
      return rm(path, { force: true });
    });
  }
}

export function listNames({ router, nodes }: Topology): string[] {
  return [router, ...nodes.map(({ netns }) => netns)];
}

/** The router's own address is added last. */
async function isComplete(topology: Topology, options: Abortable): Promise<boolean> {
  for (const name of listNames(topology)) if (!(await pathExists(formatNetnsPath(name)))) return false;
  const args = ["-n", topology.router, "-o", "address", "show", "dev", "lo"];
  const { stdout } = await runTool("ip", args, { ...options, acceptCodes: [0, 1, 255] });
  return stdout.includes(` ${controlPlaneAddress}/32 `);
}

async function build({ router, nodes }: Topology, options: Abortable): Promise<void> {
  for (const name of listNames({ router, nodes })) {
    await runTool("ip", ["netns", "add", name], options);
    const forward = "echo 1 > /proc/sys/net/ipv4/ip_forward";
    await runTool("ip", ["netns", "exec", name, "sh", "-c", forward], options);
  }
  await runBatch(router, ["link set lo up", ...nodes.flatMap(linkNode)], options);
  for (const node of nodes) await runBatch(node.netns, configureNode(node), options);
  const routes = nodes.map(({ cidr, address }) => `route add ${cidr} via ${address}`);
  await runBatch(router, [...routes, `address add ${controlPlaneAddress}/32 dev lo`], options);
}

function linkNode({ device, netns, gateway }: NodeLink): string[] {
  return [
    `link add ${device} type veth peer name uplink netns ${netns}`,
    `address add ${gateway}/30 dev ${device}`,
    `link set ${device} up`,
  ];
}

function configureNode({ address, gateway }: NodeLink): string[] {
  return [
    "link set lo up",
    `address add ${address}/30 dev uplink`,
    "link set uplink up",
    `route add default via ${gateway}`,
  ];
}

async function runBatch(netns: string, lines: readonly string[], options: Abortable): Promise<void> {
  await runTool("ip", ["-n", netns, "-batch", "-"], { ...options, input: `${lines.join("\n")}\n` });
}
