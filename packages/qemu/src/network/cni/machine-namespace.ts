/** The network namespace of one machine: CNI's interfaces and the guest's taps, joined. All steps are repeatable. */
import { rm, statfs } from "node:fs/promises";
import { join } from "node:path";
import { Fault, systemCode, type Abortable } from "@cocoon/core";
import { runTool } from "@cocoon/vm/host";
import * as z from "zod";
import { contains, formatIpv4, parseIpv4, parseSubnet } from "../ipv4.ts";
import { writeTapRules, type TapRules } from "./tap-rules.ts";

/** Where `ip netns` keeps its names. */
const directory = "/run/netns";
const namespaceFileSystem = 0x6e736673;

/** An interface as CNI left it. */
export interface PluggedInterface {
  readonly mac: string;
  readonly mtu: number;
  readonly ip: string;
  /** 32 where neighbours are reached through the gateway only. */
  readonly prefix: number;
  readonly gateway?: string;
}

const linkSchema = z
  .array(
    z.looseObject({
      address: z.string(),
      mtu: z.int(),
      addr_info: z.array(
        z.looseObject({ family: z.string(), local: z.string().optional(), prefixlen: z.int() }),
      ),
    }),
  )
  .min(1);

const routesSchema = z.array(
  z.looseObject({
    dst: z.string(),
    gateway: z.string().optional(),
    scope: z.string().optional(),
  }),
);

export function formatNetnsPath(name: string): string {
  return join(directory, name);
}

export async function hasNamespace(name: string): Promise<boolean> {
  const found = await statfs(formatNetnsPath(name)).catch((error: unknown) => {
    if (systemCode(error) === "ENOENT") return undefined;
    throw error;
  });
  return found?.type === namespaceFileSystem;
}

export async function ensureNamespace(name: string, options: Abortable): Promise<void> {
  if (await hasNamespace(name)) return;
  await rm(formatNetnsPath(name), { force: true }); // a name without a namespace: its maker died between the two
  await runTool("ip", ["netns", "add", name], options);
}

/** Its interfaces go with it, also their other ends. */
export async function removeNamespace(name: string, options: Abortable): Promise<void> {
  if (await hasNamespace(name)) await runTool("ip", ["netns", "delete", name], options);
  else await rm(formatNetnsPath(name), { force: true });
}

export async function readInterface(
  netns: string,
  ifName: string,
  options: Abortable,
): Promise<PluggedInterface> {
  const show = (...what: readonly string[]) =>
    runTool("ip", ["-n", netns, "-j", ...what, "show", "dev", ifName], options);
  const [link, routes] = await Promise.all([show("address"), show("route")]);
  return toInterface(ifName, link.stdout, routes.stdout);
}

/** Pure: from what `ip -j address` and `ip -j route` print. */
// oxlint-disable-next-line max-params -- two texts of one interface
export function toInterface(ifName: string, linkJson: string, routesJson: string): PluggedInterface {
  const [link] = linkSchema.parse(JSON.parse(linkJson));
  const routes = routesSchema.parse(JSON.parse(routesJson.trim() || "[]"));
  const address = link?.addr_info.find(({ family, local }) => family === "inet" && local !== undefined);
  if (!link || address?.local === undefined)
    throw new Fault(
      "notSupported",
      `CNI gave ${ifName} no IPv4 address; machines need one: use a network with IPAM`,
    );
  const ip = address.local;
  const isOnLink = routes.some(
    ({ dst, gateway, scope }) => gateway === undefined && scope === "link" && covers(dst, ip),
  );
  const gateway = routes.find(({ dst, gateway: via }) => dst === "default" && via !== undefined)?.gateway;
  return {
    mac: link.address,
    mtu: link.mtu,
    ip,
    prefix: isOnLink ? address.prefixlen : 32,
    ...(gateway === undefined ? {} : { gateway }),
  };
}

function covers(destination: string, ip: string): boolean {
  if (!/\/\d+$/.test(destination)) return false;
  const prefix = Number(destination.split("/")[1]);
  if (prefix < 8 || prefix > 30) return false;
  return contains(parseSubnet(destination), parseIpv4(formatIpv4(parseIpv4(ip))));
}

/** Independent of the plugins, so it may happen while they work. */
export async function makeTaps(netns: string, taps: readonly string[], options: Abortable): Promise<void> {
  const owner = String(process.getuid?.() ?? 0);
  const lines = taps.map((tap) => `tuntap add dev ${tap} mode tap vnet_hdr user ${owner}`);
  // One that is there already is fine; if one is missing, joining it fails.
  await runBatch(netns, ["link set dev lo up", ...lines], { ...options, acceptCodes: [0, 1] });
}

export interface Tap extends TapRules {
  readonly mtu: number;
}

/** Joins the taps to CNI's interfaces. */
export async function joinTaps(netns: string, taps: readonly Tap[], options: Abortable): Promise<void> {
  const lines = taps.map(({ tap, mtu }) => `link set dev ${tap} mtu ${mtu} up`);
  await Promise.all([
    runBatch(netns, lines, options),
    runTool("ip", ["netns", "exec", netns, "nft", "-f", "-"], { ...options, input: writeTapRules(taps) }),
  ]);
}

async function runBatch(
  netns: string,
  lines: readonly string[],
  options: Abortable & { readonly acceptCodes?: readonly number[] },
): Promise<void> {
  const input = `${lines.join("\n")}\n`;
  await runTool("ip", ["-n", netns, "-force", "-batch", "-"], { ...options, input });
}
