/** Whether this host can run machines: an emulator, what images are built with, whose `cocoon` it has, what nodes keep. */
import { execFile } from "node:child_process";
import { constants } from "node:fs/promises";
import { promisify } from "node:util";
import { isAccessible } from "@cocoon/core";
import { findCniProblems, findFuseProblem, findMissingIsolation } from "@cocoon/qemu";
import { isInstalled } from "@cocoon/vm/host";
import { findMissing } from "../network/choose-network.ts";
import { findNetworkMode, partsDirectory } from "../parts/parts.ts";
import { age } from "../table.ts";
import {
  formatGigabytes,
  ok,
  problem,
  warning,
  type Check,
  type CheckContext,
  type CheckResult,
} from "./check.ts";

const run = promisify(execFile);
const imageTools = ["cpio", "mke2fs", "debugfs", "dpkg-deb", "gcc", "mmdebstrap"];

export const machineChecks: readonly Check[] = [
  {
    name: "QEMU",
    run: (context) =>
      checkPrograms(context, ["qemu-system-x86_64", "qemu-img"], "qemu-system-x86 qemu-utils"),
  },
  {
    name: "image tools",
    run: (context) => checkPrograms(context, imageTools, "cpio e2fsprogs dpkg gcc libc6-dev mmdebstrap"),
  },
  { name: "ping", run: (context) => checkPrograms(context, ["ping"], "iputils-ping") },
  { name: "virtualisation", run: checkKvm },
  { name: "network of machines", run: checkNetwork },
  { name: "network of up", run: checkPlatformNetwork },
  { name: "isolation of machines", run: checkIsolation },
  { name: "lazy wake", run: checkLazyWake },
  { name: "command cocoon", run: checkCocoon },
  { name: "snapshots on nodes", run: checkSnapshots },
];

async function checkPrograms(
  { env }: CheckContext,
  programs: readonly string[],
  packages: string,
): Promise<CheckResult> {
  const missing: string[] = [];
  for (const program of programs) if (!(await isInstalled(program, env["PATH"] ?? ""))) missing.push(program);
  if (missing.length === 0) return ok(programs.join(", "));
  return problem(
    `missing: ${missing.join(", ")}`,
    `apt-get install ${packages} (npm run up does it as root)`,
  );
}

/** Without it everything works, slower. Whether guests really run with it is found out when the first one starts. */
async function checkKvm(): Promise<CheckResult> {
  const usable = await isAccessible("/dev/kvm", constants.R_OK | constants.W_OK);
  const found = usable ? "/dev/kvm can be opened" : "no /dev/kvm: machines are emulated, which is slower";
  return ok(found);
}

/** Whether machines can run here before their memory and disks have arrived. */
async function checkLazyWake({ signal }: CheckContext): Promise<CheckResult> {
  const problem = await findFuseProblem({ signal });
  if (problem === "")
    return { state: "ok", found: "machines run before their memory and disks have arrived" };
  return { state: "ok", found: `not possible, snapshots are pulled whole before a machine runs: ${problem}` };
}

/** Whether vk-cocoon on this host connects machines to the cluster's network, and what is in the way. */
async function checkNetwork({ env, signal }: CheckContext): Promise<CheckResult> {
  const confDirectory = env["VK_CNI_CONF_DIR"] || "/etc/cni/net.d";
  const binDirectories = env["VK_CNI_BIN_DIR"]?.split(":").filter(Boolean);
  const { network, problems } = await findCniProblems({
    confDirectory,
    ...(binDirectories ? { binDirectories } : {}),
    signal,
  });
  const [first] = problems;
  if (first)
    return warning(
      `CNI ${network === undefined ? "" : `network "${network}"`}: ${problems.map(({ found }) => found).join("; ")}`,
      problems.map(({ fix }) => fix).join("; "),
    );
  if (network !== undefined)
    return ok(`CNI network "${network}" of ${confDirectory}, used by nodes with VK_NETWORK=cni`);
  return ok(
    `no CNI configuration in ${confDirectory}: ports of machines are forwarded, Services do not reach them`,
  );
}

/** Whether machines of this machine's platform have, or would have, a network of their own. */
async function checkPlatformNetwork({ directory, env, signal }: CheckContext): Promise<CheckResult> {
  const [before, missing] = await Promise.all([
    findNetworkMode(directory),
    findMissing({ path: env["PATH"] ?? "", signal }),
  ]);
  const fix = "see docs/how-to/cluster-network.md, on one machine";
  if (before === "cni" && missing !== undefined)
    return problem(`machines of this platform are on a network of their own, but: ${missing}`, fix);
  if (before === "user" || missing !== undefined)
    return ok(`machines have forwarded ports only: ${missing ?? "as this platform was made"}`);
  const how = before === "cni" ? "have" : "will have";
  return ok(`machines ${how} a network of their own, with Services and names`);
}

/** Whether machines are kept from this host and from each other as far as it can be. */
async function checkIsolation({ directory, signal }: CheckContext): Promise<CheckResult> {
  const missing = await findMissingIsolation(directory, { signal });
  if (missing.length === 0) return ok("users, namespaces, cgroups, guard of the user network");
  return warning(missing.join("; "), "see docs/security.md, machines and their host");
}

/** Two programs have this name: the Go one, whose VMs nodes then drive, and ours, which works on the built-in engine's files. */
async function checkCocoon({ env, signal }: CheckContext): Promise<CheckResult> {
  const path = env["VK_COCOON_BIN"] || "/usr/local/bin/cocoon";
  if (!(await isAccessible(path, constants.F_OK))) return ok(`no ${path}: nodes use the built-in engine`);
  const version = await run(path, ["version"], { signal, timeout: 10_000 }).then(
    ({ stdout }) => stdout,
    () => "",
  );
  const named = `${path} ${/^Version:\s*(\S+)/m.exec(version)?.[1] ?? ""}`;
  if (version === "") return problem(`${path} does not run`, "repair it, or choose VK_RUNTIME=qemu");
  if (!version.includes("Node.js"))
    return ok(`${named} is the Go program: nodes drive it unless VK_RUNTIME=qemu`);
  if (env["VK_RUNTIME"] !== "cocoon") return ok(`${named} is of this project: nodes use the built-in engine`);
  const fix = "name the Go program in VK_COCOON_BIN, or choose VK_RUNTIME=qemu";
  return problem(`${named} is of this project and knows no VM of the Go program`, fix);
}

/** As vk-cocoon limits them by default (VK_SNAPSHOT_CACHE_MAX_MIB, VK_SNAPSHOT_CACHE_MAX_HOURS). */
const limit = { bytes: 20_480 * 2 ** 20, days: 7 };

/** Snapshots pulled for clones, and copies of machines that left: the kubelet removes them by size and age. */
async function checkSnapshots({ directory, env, signal }: CheckContext): Promise<CheckResult> {
  const { forEachRuntime } = await import("../parts/node-machines.ts");
  const options = { directory: partsDirectory(directory), path: env["PATH"] ?? "", signal };
  const texts: string[] = [];
  let total = 0;
  await forEachRuntime(options, async (runtime, node) => {
    const snapshots = await runtime.snapshots.list({ signal });
    const bytes = snapshots.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
    const [oldest] = snapshots;
    const since = oldest ? `, oldest ${age(Date.now() - Date.parse(oldest.createdAt))}` : "";
    texts.push(`cocoon-${node}: ${snapshots.length} with ${formatGigabytes(bytes)}${since}`);
    total += bytes;
  });
  const limits = `limits: ${formatGigabytes(limit.bytes)} and ${limit.days} days for pulled ones`;
  const found = texts.length === 0 ? `none (${limits})` : `${texts.join("; ")} (${limits})`;
  if (total <= 2 * limit.bytes) return ok(found);
  return warning(found, "lower VK_SNAPSHOT_CACHE_MAX_MIB, or use a larger disk");
}
