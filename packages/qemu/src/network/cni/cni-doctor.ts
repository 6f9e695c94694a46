/** What keeps machines of this host from the cluster's network, for `doctor`. Only looks. */
import { getErrorMessage, tryReadFile, type Abortable } from "@cocoon/core";
import { requireTools, runTool } from "@cocoon/vm/host";
import * as z from "zod";
import { defaultBinDirectories, defaultConfDirectory } from "./cni-settings.ts";
import { loadConflist, listConflists, type Conflist } from "./conflist.ts";
import { CniPlugins } from "./plugins.ts";

interface CniProblem {
  readonly found: string;
  readonly fix: string;
}

export interface CniReport {
  /** Name of the default list; undefined where the host has no CNI configuration. */
  readonly network?: string;
  readonly problems: readonly CniProblem[];
}

export interface CniDoctorOptions extends Abortable {
  readonly confDirectory?: string;
  readonly binDirectories?: readonly string[];
  /** Where the kernel's settings are. */
  readonly sysDirectory?: string;
}

export async function findCniProblems(options: CniDoctorOptions): Promise<CniReport> {
  const { confDirectory = defaultConfDirectory, sysDirectory = "/proc/sys" } = options;
  const names = await listConflists(confDirectory);
  let list: Conflist;
  try {
    list = await loadConflist(confDirectory, undefined);
  } catch (error) {
    if (names.length === 0 && /has no CNI/.test(getErrorMessage(error))) return { problems: [] };
    return {
      problems: [{ found: getErrorMessage(error), fix: `repair or remove the file in ${confDirectory}` }],
    };
  }
  const problems = [
    await findToolProblem(),
    await findPluginProblem(list, options.binDirectories ?? defaultBinDirectories),
    await findForwardingProblem(sysDirectory),
    await findBridgeProblem(list, sysDirectory),
    await findFirewallProblem(options),
  ];
  return { network: list.name, problems: problems.filter((problem) => problem !== undefined) };
}

async function findToolProblem(): Promise<CniProblem | undefined> {
  if (process.getuid?.() !== 0)
    return {
      found: "not root: machines cannot be connected to it",
      fix: "run vk-cocoon as root, as its unit does",
    };
  return requireTools(["ip", "nft"], "the CNI network").then(
    () => undefined,
    (error: unknown) => ({ found: getErrorMessage(error), fix: "apt-get install iproute2 nftables" }),
  );
}

async function findPluginProblem(
  list: Conflist,
  binDirectories: readonly string[],
): Promise<CniProblem | undefined> {
  const missing = await new CniPlugins({ binDirectories, timeoutMs: 0 }).findMissing(list);
  if (missing.length === 0) return undefined;
  return {
    found: `plugins are missing in ${binDirectories.join(" and ")}: ${missing.join(", ")}`,
    fix: "install the cluster's network plugin on this host, or apt-get install containernetworking-plugins",
  };
}

async function findForwardingProblem(sysDirectory: string): Promise<CniProblem | undefined> {
  const value = (await tryReadFile(`${sysDirectory}/net/ipv4/ip_forward`))?.trim();
  if (value === "1") return undefined;
  return {
    found: "this host does not forward packets: machines reach only their own bridge",
    fix: "sysctl -w net.ipv4.ip_forward=1, and keep it in /etc/sysctl.d",
  };
}

/** Frames between two ports of one bridge pass Services and policies only through br_netfilter. */
async function findBridgeProblem(list: Conflist, sysDirectory: string): Promise<CniProblem | undefined> {
  if (!list.plugins.some(({ type }) => type === "bridge" || type === "flannel")) return undefined;
  const value = (await tryReadFile(`${sysDirectory}/net/bridge/bridge-nf-call-iptables`))?.trim();
  if (value === "1") return undefined;
  const fix =
    value === undefined
      ? "modprobe br_netfilter, and keep it in /etc/modules-load.d"
      : "sysctl -w net.bridge.bridge-nf-call-iptables=1";
  return { found: "Services do not lead from a machine to one on the same bridge", fix };
}

const chainsSchema = z.object({
  nftables: z.array(
    z.looseObject({
      chain: z
        .looseObject({
          table: z.string(),
          name: z.string(),
          hook: z.string().optional(),
          policy: z.string().optional(),
        })
        .optional(),
    }),
  ),
});

/** Docker and many firewalls drop what no rule of theirs accepts; the CNI plugin `firewall` adds such rules. */
async function findFirewallProblem(options: Abortable): Promise<CniProblem | undefined> {
  const listed = await runTool("nft", ["-j", "list", "chains"], options).catch(() => undefined);
  const chains = listed && chainsSchema.safeParse(JSON.parse(listed.stdout || '{"nftables":[]}'));
  if (!chains?.success) return undefined; // not root, or no nft: another check reports it
  const dropping = chains.data.nftables.find(
    ({ chain }) => chain?.hook === "forward" && chain.policy === "drop",
  );
  if (!dropping?.chain) return undefined;
  const { table, name } = dropping.chain;
  return {
    found: `a firewall drops forwarded packets by default (chain ${name} of table ${table})`,
    fix: "add the plugin firewall to the CNI list, or accept the machines' network there (Docker: chain DOCKER-USER)",
  };
}
