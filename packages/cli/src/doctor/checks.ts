/** The list of what doctor looks at. A part that adds requirements adds its checks here. */
import { execFile } from "node:child_process";
import { readFile, statfs } from "node:fs/promises";
import { promisify } from "node:util";
import { X509Certificate } from "node:crypto";
import { checkColocation } from "@cocoon/colocation";
import {
  componentStatus,
  defaultCacheRoot,
  findRunning,
  pkiFiles,
  resolveBinaries,
} from "@cocoon/controlplane";
import { getErrorMessage } from "@cocoon/core";
import { openKubeClient } from "@cocoon/kube";
import { askCluster } from "../external-cluster.ts";
import { knownPlatform, type Platform } from "../platform.ts";
import {
  formatGigabytes,
  ok,
  problem,
  warning,
  type Check,
  type CheckContext,
  type CheckResult,
} from "./check.ts";
import { machineChecks } from "./machine-checks.ts";

const run = promisify(execFile);
const wantedFreeBytes = 5e9;
const warnDays = 21;

const hostChecks: readonly Check[] = [
  { name: "Node", run: checkNode },
  { name: "disk space", run: checkDisk },
  { name: "memory", run: checkMemory },
  { name: "process table", run: checkProc },
];
const platformChecks: readonly Check[] = [
  { name: "control plane programs", run: checkBinaries },
  { name: "cluster", run: checkCluster },
  { name: "certificates", run: checkCertificates },
];

export type NamedResult = CheckResult & { readonly name: string };

export async function* runChecks(context: CheckContext): AsyncGenerator<NamedResult> {
  for (const { name, run: check } of [...hostChecks, ...machineChecks, ...platformChecks])
    yield { name, ...(await check(context)) };
  yield* await checkColocationWebhooks(context);
}

async function checkColocationWebhooks(context: CheckContext): Promise<readonly NamedResult[]> {
  const { directory, env, signal } = context;
  const platform = await knownPlatform(directory, env).catch(() => undefined); // another check reports it
  if (!platform || !(await findRunning(directory, "colocation"))) return [];
  await using client = await openKubeClient({ signal, kubeconfig: platform.kubeconfig });
  return await checkColocation({ client, namespace: "cocoon-colocation", signal });
}

function checkNode(): Promise<CheckResult> {
  const major = Number(process.versions.node.split(".")[0]);
  if (major >= 26) return Promise.resolve(ok(process.version));
  return Promise.resolve(
    problem(process.version, "run through npm (npm run doctor), which uses the pinned Node 26"),
  );
}

async function checkDisk({ directory, env }: CheckContext): Promise<CheckResult> {
  const places = [directory, defaultCacheRoot(env)];
  for (const place of places) {
    const free = await freeBytes(place);
    if (free < wantedFreeBytes) {
      return warning(
        `${formatGigabytes(free)} free for ${place}`,
        `free up to ${formatGigabytes(wantedFreeBytes)}: machines and a first build need it`,
      );
    }
  }
  return ok(`${formatGigabytes(await freeBytes(directory))} free`);
}

/** Of the nearest existing parent: the directory itself may not be there yet. */
async function freeBytes(path: string): Promise<number> {
  try {
    const { bavail, bsize } = await statfs(path);
    return bavail * bsize;
  } catch {
    const parent = path.slice(0, path.lastIndexOf("/"));
    return freeBytes(parent === "" ? "/" : parent);
  }
}

async function checkMemory(): Promise<CheckResult> {
  const text = await readFile("/proc/meminfo", "latin1");
  const available = Number(/^MemAvailable:\s+(\d+)/m.exec(text)?.[1] ?? 0) * 1024;
  if (available >= 2e9) return ok(`${formatGigabytes(available)} available`);
  return warning(
    `${formatGigabytes(available)} available`,
    "close something: the control plane alone takes about 0.7 GB",
  );
}

async function checkProc(): Promise<CheckResult> {
  try {
    await readFile("/proc/self/stat");
    return ok("/proc is readable");
  } catch (error) {
    return problem(getErrorMessage(error), "mount /proc: processes are recognised by it");
  }
}

async function checkBinaries({ env, signal }: CheckContext): Promise<CheckResult> {
  try {
    const found = await resolveBinaries({
      cacheRoot: defaultCacheRoot(env),
      env,
      signal,
      installAllowed: false,
      onProgress: () => undefined,
    });
    return ok(found["kube-apiserver"].replace(/\/kube-apiserver$/, ""));
  } catch (error) {
    const go = await run("go", ["version"], { signal }).then(
      (result) => result.stdout.trim(),
      () => "no Go compiler",
    );
    return warning(
      `${getErrorMessage(error).split(". ")[0]} (${go})`,
      "npm run up downloads them, or builds them when Go 1.26 is installed",
    );
  }
}

async function checkCluster({ directory, env, signal }: CheckContext): Promise<CheckResult> {
  let platform;
  try {
    platform = await knownPlatform(directory, env);
  } catch (error) {
    return problem(getErrorMessage(error), `remove ${directory}/cluster.json and run npm run up`);
  }
  if (!platform) return ok(`none in ${directory} yet; npm run up makes one`);
  if (platform.components.length === 0) return checkExternal(platform, signal);
  const statuses = await Promise.all(
    platform.components.map((component) => componentStatus(component, { directory, signal })),
  );
  const broken = statuses.filter((each) => each.state === "crashed" || each.state === "not ready");
  const first = broken[0];
  if (first)
    return problem(
      `${first.name} ${first.state}: ${first.detail.split("\n")[0]}`,
      `npm run logs -- ${first.name}, then npm run up`,
    );
  if (statuses.every((each) => each.state === "stopped")) return ok("stopped; npm run up starts it");
  return ok(`${statuses.length} parts ready at ${platform.server}`);
}

async function checkExternal(
  { kubeconfig, context, server }: Platform,
  signal: AbortSignal,
): Promise<CheckResult> {
  try {
    const { version } = await askCluster({ kubeconfig, context }, signal);
    return ok(`Kubernetes ${version} at ${server}`);
  } catch (error) {
    return problem(getErrorMessage(error), "correct the kubeconfig or the cluster, then npm run up again");
  }
}

async function checkCertificates({ directory }: CheckContext): Promise<CheckResult> {
  const files = pkiFiles(`${directory}/pki`);
  const days: number[] = [];
  for (const pair of [files.ca, ...Object.values(files.leaf)]) {
    const text = await readFile(pair.certificate, "utf8").catch(() => undefined);
    if (text) days.push((Date.parse(new X509Certificate(text).validTo) - Date.now()) / 86_400_000);
  }
  if (days.length === 0) return ok("none yet");
  const left = Math.floor(Math.min(...days));
  if (left < warnDays)
    return {
      state: left < 0 ? "problem" : "warning",
      found: `${left} days left`,
      fix: "npm run down && npm run up makes new ones",
    };
  return ok(`${left} days left`);
}
