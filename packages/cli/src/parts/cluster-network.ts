/**
 * What the platform's own network is made of, beside its namespaces:
 *
 *   <dir>/parts/network/
 *     Corefile              configuration of CoreDNS
 *     loopback-guard        keeps machines from connecting to this host through slirp4netns
 *     node-<n>/net.d/       the CNI configuration of a node
 *     node-<n>/ipam/        addresses that its machines have
 */
import { once } from "node:events";
import { copyFile, mkdir, rename } from "node:fs/promises";
import { connect } from "node:net";
import { join } from "node:path";
import type { Component } from "@cocoon/controlplane";
import { Fault, writeFileAtomically, type Abortable } from "@cocoon/core";
import { ensureLoopbackGuard } from "@cocoon/qemu";
import { runTool } from "@cocoon/vm/host";
import { ensureNamespaces } from "../network/namespaces.ts";
import { formatRoute, type RelayPlan } from "../network/relay-plan.ts";
import {
  buildConflist,
  controlPlaneAddress,
  formatNetnsPath,
  nodeNumbers,
  outsideCidr,
  outsideDevice,
  type NodeNumber,
} from "../network/topology.ts";
import { loopback, programArguments, programEnvironment, type PartContext } from "./part.ts";

type Place = Pick<PartContext, "directory">;

export function networkDirectory({ directory }: Place): string {
  return join(directory, "network");
}

export function nodeConfDirectory(place: Place, number: NodeNumber): string {
  return join(networkDirectory(place), `node-${number}`, "net.d");
}

/** Makes namespaces and files. Idempotent: what runs in the namespaces goes on. */
export async function ensureClusterNetwork(context: PartContext, { signal }: Abortable): Promise<void> {
  const directory = networkDirectory(context);
  await mkdir(directory, { recursive: true, mode: 0o700 });
  const guard = await ensureLoopbackGuard(directory, { signal });
  await replaceFile(guard, guardPath(context));
  for (const node of context.topology.nodes) {
    const conf = nodeConfDirectory(context, node.number);
    await mkdir(conf, { recursive: true });
    const list = buildConflist(node, join(directory, `node-${node.number}`, "ipam"));
    await writeFileAtomically(join(conf, "10-cocoon.conflist"), `${JSON.stringify(list, null, 2)}\n`);
  }
  await ensureNamespaces(context.topology, { apiserverPort: readPort(context), signal });
}

/** Never written in place: a process that has it loaded would end. */
async function replaceFile(from: string, to: string): Promise<void> {
  const next = `${to}.next`;
  await copyFile(from, next);
  await rename(next, to);
}

function guardPath(place: Place): string {
  return join(networkDirectory(place), "loopback-guard");
}

function readPort({ server }: Pick<PartContext, "server">): number {
  return Number(new URL(server).port);
}

/** The part runs in the namespace of that node. */
// oxlint-disable-next-line max-params -- what, where, and the names of both
export function placeInNode(context: PartContext, number: NodeNumber, part: Component): Component {
  const node = context.topology.nodes.find((each) => each.number === number);
  return placeIn(node?.netns ?? "", part);
}

export function placeInRouter({ topology }: PartContext, part: Component): Component {
  return placeIn(topology.router, part);
}

/** Without a mount namespace of its own, which would hide the namespaces that it makes for machines. */
function placeIn(netns: string, part: Component): Component {
  const { command, args } = part;
  return { ...part, command: "nsenter", args: [`--net=${formatNetnsPath(netns)}`, command, ...args] };
}

/** Machines reach the outside by connections that slirp4netns makes for them; it refuses all addresses of this host. */
export function uplinkPart(context: PartContext): Component {
  const { router } = context.topology;
  return {
    name: "uplink",
    summary: "connects the machines' network to the outside",
    needs: [],
    command: "slirp4netns",
    args: [
      "--configure",
      "--mtu=1500",
      `--cidr=${outsideCidr}`,
      "--disable-host-loopback",
      "--netns-type=path",
      formatNetnsPath(router),
      outsideDevice,
    ],
    env: { LD_PRELOAD: guardPath(context) },
    probe: async (options) => {
      const args = ["-n", router, "-o", "-4", "address", "show", "dev", outsideDevice];
      const { stdout } = await runTool("ip", args, { ...options, acceptCodes: [0, 1, 255] });
      if (stdout === "")
        throw new Fault("unavailable", `${outsideDevice} is not configured in ${router} yet`);
    },
  };
}

/** Parts on this machine listen on its loopback address, nodes on theirs: the relay joins the two. */
export function relayPart(context: PartContext): Component {
  const { inward, outward } = planRelay(context);
  return {
    name: "relay",
    summary: "joins listeners of this machine and of the nodes' namespaces",
    needs: [],
    command: process.execPath,
    args: programArguments(
      "cli",
      "relay",
      "--inward",
      ...inward.map(formatRoute),
      "--outward",
      ...outward.map(formatRoute),
    ),
    env: programEnvironment(context),
    probe: async (options) => {
      for (const { port } of inward) await probeListener(port, options);
    },
  };
}

function planRelay(context: PartContext): RelayPlan {
  const { topology, ports } = context;
  const { router } = topology;
  const apiserver = readPort(context);
  const at = (netns: string, port: number, host = loopback) => ({ netns, host, port });
  return {
    inward: [
      ...topology.nodes.flatMap(({ netns, number }) => [
        at(netns, ports[`node${number}`]),
        at(netns, ports[`node${number}Health`]),
        at(netns, ports[`proxy${number}Health`]),
      ]),
      at(router, ports.dnsHealth),
    ],
    outward: [
      ...topology.nodes.flatMap(({ netns }) => [at(netns, apiserver), at(netns, ports.registry)]),
      at(router, apiserver),
      at(router, apiserver, controlPlaneAddress),
    ],
  };
}

/** Ports of this machine on which the relay listens for parts in namespaces. */
export const relayedPorts = {
  ...Object.fromEntries(
    nodeNumbers.flatMap((number) =>
      [`node${number}`, `node${number}Health`, `proxy${number}Health`].map((name) => [name, "relay"]),
    ),
  ),
  dnsHealth: "relay",
};

async function probeListener(port: number, { signal }: Abortable): Promise<void> {
  const socket = connect({ host: loopback, port });
  try {
    await once(socket, "connect", { signal });
  } finally {
    socket.destroy();
  }
}
