/** Whether this machine can give machines a network of their own; without that they have forwarded ports. Only looks. */
import { constants } from "node:fs/promises";
import { Fault, getErrorMessage, isAccessible, type Abortable } from "@cocoon/core";
import { findMissingPlugins } from "@cocoon/qemu";
import { isInstalled, runTool } from "@cocoon/vm/host";
import type { NetworkMode } from "../parts/part.ts";
import { cniPlugins } from "./topology.ts";

export interface NetworkChoice {
  readonly network: NetworkMode;
  /** Why it is not the better one. */
  readonly missing?: string;
  /** It is `auto` for a new platform: where its programs cannot be had either, the other one will do. */
  readonly isReplaceable?: true;
}

interface Look extends Abortable {
  readonly path: string;
}

export interface NetworkWishes extends Look {
  /** `auto`: the best that this machine can do. */
  readonly wanted: NetworkMode | "auto";
  /** As an earlier `up` had it. */
  readonly before: NetworkMode | undefined;
}

/** What a platform has it keeps: its machines could not do with another one. */
export async function chooseNetwork(
  { wanted, before, ...options }: NetworkWishes,
  look = { findMissing },
): Promise<NetworkChoice> {
  if (wanted !== "auto" && before !== undefined && wanted !== before)
    throw new Fault(
      "conflict",
      `--network ${wanted}: machines of this platform are on the network "${before}", and keep it; begin anew with: npm run down -- --wipe`,
    );
  const chosen = before ?? wanted;
  if (chosen === "user") return { network: "user" };
  const missing = await look.findMissing(options);
  if (missing === undefined) return { network: "cni", ...(chosen === "auto" ? { isReplaceable: true } : {}) };
  if (chosen === "auto") return { network: "user", missing };
  throw new Fault("preconditionFailed", `machines cannot have a network of their own here: ${missing}`);
}

/** `text`: as it was typed; absent, a platform keeps what it has, and a new one has the best that this machine can do. */
export function readNetworkWish(
  text: string | undefined,
  before: NetworkMode | undefined,
): NetworkWishes["wanted"] {
  if (text === undefined) return before ?? "auto";
  if (text === "auto" || text === "cni" || text === "user") return text;
  throw new Fault("badRequest", `--network ${text} is not one of auto, cni, user`);
}

/** Programs, and the Debian package each comes from. */
const programs = {
  ip: "iproute2",
  nft: "nftables",
  nsenter: "util-linux",
  iptables: "iptables",
  slirp4netns: "slirp4netns",
} as const;

/** Why machines cannot have a network of their own here; undefined when they can. */
export async function findMissing({ path, signal }: Look): Promise<string | undefined> {
  if (process.getuid?.() !== 0) return "it needs root";
  const packages = new Set<string>();
  const names: string[] = [];
  for (const [program, debian] of Object.entries(programs)) {
    if (await isInstalled(program, path)) continue;
    names.push(program);
    packages.add(debian);
  }
  const plugins = await findMissingPlugins(cniPlugins);
  if (plugins.length > 0) packages.add("containernetworking-plugins");
  if (packages.size > 0)
    return `missing: ${[...names, ...plugins].join(", ")}; install with "apt-get install ${[...packages].join(" ")}"`;
  if (!(await isAccessible("/dev/net/tun", constants.R_OK | constants.W_OK)))
    return "/dev/net/tun cannot be opened";
  return findForbidden({ signal });
}

/** In a container root may be without the rights that it has on a host. */
async function findForbidden(options: Abortable): Promise<string | undefined> {
  const script = "ip link add one type veth peer name other && nft add table ip cocoon_probe";
  return runTool("unshare", ["--net", "sh", "-c", script], options).then(
    () => undefined,
    (error: unknown) => `network namespaces cannot be made: ${getErrorMessage(error)}`,
  );
}
