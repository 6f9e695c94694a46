/** What this host has and lacks for running VMs, and how to get it. */
import { constants } from "node:fs";
import { link, mkdir, rm, statfs, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { getErrorMessage, isAccessible, tryReadFile } from "@cocoon/core";
import { findMissingIsolation, probeHost } from "@cocoon/qemu";
import { newId } from "@cocoon/vm/engine";
import { isInstalled } from "@cocoon/vm/host";
import { Quit } from "../quit.ts";
import type { CommandSession } from "../session.ts";
import { formatSize } from "../sizes.ts";
import { readSnapshotUsage } from "./snapshot-usage.ts";

type Verdict = "ok" | "warn" | "fail";

interface Finding {
  readonly verdict: Verdict;
  readonly what: string;
  readonly detail: string;
}

type Check = (session: CommandSession) => Promise<Finding | Finding[]>;

const finding =
  (verdict: Verdict) =>
  (what: string, detail: string): Finding => ({ verdict, what, detail });
const [ok, warn, fail] = [finding("ok"), finding("warn"), finding("fail")];

const gibibyte = 1024 ** 3;
const tmpfsType = 0x01021994;

/** Prints the findings; exit code 1 when something is missing that is needed. */
export async function runDoctor(session: CommandSession): Promise<void> {
  const findings = (await Promise.all(checks.map((check) => check(session)))).flat();
  const width = Math.max(...findings.map(({ what }) => what.length));
  for (const { verdict, what, detail } of findings)
    session.print(`${verdict.padEnd(4)}  ${what.padEnd(width)}  ${detail}\n`);
  if (findings.some(({ verdict }) => verdict === "fail")) throw new Quit(1);
}

const checks: readonly Check[] = [qemu, tools, firmware, store, snapshots, pageAccess, tun, isolation];

async function qemu({ settings, signal }: CommandSession): Promise<Finding[]> {
  const cacheFile = join(settings.rootDir, "qemu", "shared", `doctor-${newId()}.json`);
  const { qemuBinary: binary, accelerator, path } = settings;
  try {
    const host = await probeHost({ binary, accelerator, path, cacheFile, signal });
    const kvm =
      host.accelerator === "kvm"
        ? ok("KVM", "a guest ran")
        : warn("KVM", `${host.whyNotKvm}; guests are emulated, which is slow`);
    return [ok("QEMU", `${host.version} (${host.binary})`), kvm];
  } catch (error) {
    return [fail("QEMU", getErrorMessage(error))];
  } finally {
    await rm(cacheFile, { force: true });
  }
}

async function snapshots({ settings }: CommandSession): Promise<Finding> {
  const { count, bytes } = await readSnapshotUsage(settings.rootDir);
  return { verdict: "ok", what: "snapshots", detail: `${count} on this host, ${formatSize(bytes)}` };
}

/** Programs, and the Debian packages that bring them. */
const programs = [
  ["qemu-img", "qemu-utils", warn],
  ["cp", "coreutils", fail],
  ["mke2fs", "e2fsprogs", warn],
  ["dnsmasq", "dnsmasq-base", warn],
  ["nft", "nftables", warn],
] as const;

async function tools({ settings }: CommandSession): Promise<Finding[]> {
  return Promise.all(
    programs.map(async ([program, debian, missing]) =>
      (await isInstalled(program, settings.path))
        ? ok(program, "found")
        : missing(program, `missing: install the package ${debian}`),
    ),
  );
}

async function firmware(): Promise<Finding[]> {
  const files = [
    ["BIOS", "/usr/share/seabios/bios-256k.bin", "seabios", fail],
    ["UEFI", "/usr/share/OVMF/OVMF_CODE_4M.fd", "ovmf", warn],
  ] as const;
  return Promise.all(
    files.map(async ([what, path, debian, missing]) =>
      (await isAccessible(path, constants.R_OK))
        ? ok(what, path)
        : missing(what, `${path} is missing: install the package ${debian}`),
    ),
  );
}

async function store({ settings: { rootDir } }: CommandSession): Promise<Finding> {
  const file = join(rootDir, `doctor-${newId()}`);
  try {
    await mkdir(rootDir, { recursive: true });
    await writeFile(file, "");
    const linked = await link(file, `${file}-link`).then(
      () => true,
      () => false,
    );
    await rm(file, { force: true });
    await rm(`${file}-link`, { force: true });
    if (!linked) return warn("store", `${rootDir} has no hard links: clones copy their disks`);
    const { bavail, bsize, type } = await statfs(rootDir);
    if (type === tmpfsType)
      return warn(
        "store",
        `${rootDir} is a file system in memory: guests' memory takes room there too, and when it is full they crash instead of waiting; use --root-dir`,
      );
    const free = bavail * bsize;
    return (free < 5 * gibibyte ? warn : ok)("store", `${rootDir}, ${formatSize(free)} free`);
  } catch (error) {
    return fail("store", `${rootDir} cannot be written: ${getErrorMessage(error)}; use --root-dir`);
  }
}

/** Saving page by page reads another process's memory. */
async function pageAccess(): Promise<Finding> {
  const scope = Number((await tryReadFile("/proc/sys/kernel/yama/ptrace_scope")) ?? 0);
  if (scope === 0 || process.getuid?.() === 0) return ok("page access", "guests are saved page by page");
  return warn(
    "page access",
    `kernel.yama.ptrace_scope is ${scope}: VMs that another process started are saved as a whole stream, which pauses them longer; set it to 0, or give CAP_SYS_PTRACE`,
  );
}

async function tun(): Promise<Finding> {
  const usable = await isAccessible("/dev/net/tun", constants.R_OK | constants.W_OK);
  return usable && process.getuid?.() === 0
    ? ok("bridge network", "/dev/net/tun is usable")
    : warn(
        "bridge network",
        "needs root and /dev/net/tun; VMs use the user network: no ICMP, only forwarded ports",
      );
}

async function isolation({ settings, signal }: CommandSession): Promise<Finding[]> {
  const missing = await findMissingIsolation(settings.rootDir, { signal });
  const loopback = settings.allowHostLoopback ? [warn("isolation", "guests may connect to this host")] : [];
  if (missing.length === 0) return [...loopback, ok("isolation", "users, namespaces, cgroups, guard")];
  return [...loopback, ...missing.map((text) => (text.includes("gcc") ? fail : warn)("isolation", text))];
}
