/** The list of what doctor looks at. A part that adds requirements adds its checks here. */
import { execFile } from "node:child_process";
import { readFile, statfs } from "node:fs/promises";
import { promisify } from "node:util";
import { X509Certificate } from "node:crypto";
import { componentStatus, defaultCacheRoot, pkiFiles, resolveBinaries } from "@cocoon/controlplane";
import { messageOf } from "@cocoon/core";
import { askCluster } from "../external-cluster.ts";
import { knownPlatform, type Platform } from "../platform.ts";
import type { Check, CheckContext, CheckResult } from "./check.ts";
import { machineChecks } from "./machine-checks.ts";

const run = promisify(execFile);
const wantedFreeBytes = 5e9;
const warnDays = 21;

export const allChecks: readonly Check[] = [
  { name: "Node", run: checkNode },
  { name: "disk space", run: checkDisk },
  { name: "memory", run: checkMemory },
  { name: "process table", run: checkProc },
  ...machineChecks,
  { name: "control plane programs", run: checkBinaries },
  { name: "cluster", run: checkCluster },
  { name: "certificates", run: checkCertificates },
];

function checkNode(): Promise<CheckResult> {
  const major = Number(process.versions.node.split(".")[0]);
  if (major >= 26) return Promise.resolve({ state: "ok", found: process.version });
  return Promise.resolve({
    state: "problem",
    found: process.version,
    fix: "run through npm (npm run doctor), which uses the pinned Node 26",
  });
}

async function checkDisk({ directory, env }: CheckContext): Promise<CheckResult> {
  const places = [directory, defaultCacheRoot(env)];
  for (const place of places) {
    const free = await freeBytes(place);
    if (free < wantedFreeBytes) {
      return {
        state: "warning",
        found: `${gigabytes(free)} free for ${place}`,
        fix: `free up to ${gigabytes(wantedFreeBytes)}: machines and a first build need it`,
      };
    }
  }
  return { state: "ok", found: `${gigabytes(await freeBytes(directory))} free` };
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

function gigabytes(bytes: number): string {
  return `${(bytes / 1e9).toFixed(1)} GB`;
}

async function checkMemory(): Promise<CheckResult> {
  const text = await readFile("/proc/meminfo", "latin1");
  const available = Number(/^MemAvailable:\s+(\d+)/m.exec(text)?.[1] ?? 0) * 1024;
  if (available >= 2e9) return { state: "ok", found: `${gigabytes(available)} available` };
  return {
    state: "warning",
    found: `${gigabytes(available)} available`,
    fix: "close something: the control plane alone takes about 0.7 GB",
  };
}

async function checkProc(): Promise<CheckResult> {
  try {
    await readFile("/proc/self/stat");
    return { state: "ok", found: "/proc is readable" };
  } catch (error) {
    return { state: "problem", found: messageOf(error), fix: "mount /proc: processes are recognised by it" };
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
    return { state: "ok", found: found["kube-apiserver"].replace(/\/kube-apiserver$/, "") };
  } catch (error) {
    const go = await run("go", ["version"], { signal }).then(
      (result) => result.stdout.trim(),
      () => "no Go compiler",
    );
    return {
      state: "warning",
      found: `${messageOf(error).split(". ")[0]} (${go})`,
      fix: "npm run up downloads them, or builds them when Go 1.26 is installed",
    };
  }
}

async function checkCluster({ directory, env, signal }: CheckContext): Promise<CheckResult> {
  let platform;
  try {
    platform = await knownPlatform(directory, env);
  } catch (error) {
    return {
      state: "problem",
      found: messageOf(error),
      fix: `remove ${directory}/cluster.json and run npm run up`,
    };
  }
  if (!platform) return { state: "ok", found: `none in ${directory} yet; npm run up makes one` };
  if (platform.components.length === 0) return checkExternal(platform, signal);
  const statuses = await Promise.all(
    platform.components.map((component) => componentStatus(component, { directory, signal })),
  );
  const broken = statuses.filter((each) => each.state === "crashed" || each.state === "not ready");
  const first = broken[0];
  if (first)
    return {
      state: "problem",
      found: `${first.name} ${first.state}: ${first.detail.split("\n")[0]}`,
      fix: `npm run logs -- ${first.name}, then npm run up`,
    };
  if (statuses.every((each) => each.state === "stopped"))
    return { state: "ok", found: "stopped; npm run up starts it" };
  return { state: "ok", found: `${statuses.length} parts ready at ${platform.server}` };
}

async function checkExternal(
  { kubeconfig, context, server }: Platform,
  signal: AbortSignal,
): Promise<CheckResult> {
  try {
    const { version } = await askCluster({ kubeconfig, ...(context ? { context } : {}) }, signal);
    return { state: "ok", found: `Kubernetes ${version} at ${server}` };
  } catch (error) {
    return {
      state: "problem",
      found: messageOf(error),
      fix: "correct the kubeconfig or the cluster, then npm run up again",
    };
  }
}

async function checkCertificates({ directory }: CheckContext): Promise<CheckResult> {
  const files = pkiFiles(`${directory}/pki`);
  const days: number[] = [];
  for (const pair of [files.ca, ...Object.values(files.leaf)]) {
    const text = await readFile(pair.certificate, "utf8").catch(() => undefined);
    if (text) days.push((Date.parse(new X509Certificate(text).validTo) - Date.now()) / 86_400_000);
  }
  if (days.length === 0) return { state: "ok", found: "none yet" };
  const left = Math.floor(Math.min(...days));
  if (left < warnDays)
    return {
      state: left < 0 ? "problem" : "warning",
      found: `${left} days left`,
      fix: "npm run down && npm run up makes new ones",
    };
  return { state: "ok", found: `${left} days left` };
}
