/** What this host has and lacks for running VMs, and how to get it. */
import { constants } from "node:fs";
import { access, link, mkdir, readFile, rm, statfs, writeFile } from "node:fs/promises";
import { delimiter, join } from "node:path";
import { messageOf } from "@cocoon/core";
import { probeHost } from "../qemu/host.ts";
import { newId } from "../store/ids.ts";
import { Quit } from "./quit.ts";
import type { CommandSession } from "./session.ts";
import { formatSize } from "./sizes.ts";

type Verdict = "ok" | "warn" | "fail";

interface Finding {
  readonly verdict: Verdict;
  readonly what: string;
  readonly detail: string;
}

type Check = (session: CommandSession) => Promise<Finding | Finding[]>;

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

const checks: readonly Check[] = [qemu, tools, firmware, store, pageAccess, tun, vsock, cgroups];

async function qemu({ settings, signal }: CommandSession): Promise<Finding[]> {
  const cacheFile = join(settings.rootDir, "qemu", "shared", `doctor-${newId()}.json`);
  try {
    const host = await probeHost({
      binary: settings.qemuBinary,
      accelerator: settings.accelerator,
      path: settings.path,
      cacheFile,
      signal,
    });
    const kvm: Finding =
      host.accelerator === "kvm"
        ? { verdict: "ok", what: "KVM", detail: "a guest ran" }
        : { verdict: "warn", what: "KVM", detail: `${host.whyNotKvm}; guests are emulated, which is slow` };
    return [{ verdict: "ok", what: "QEMU", detail: `${host.version} (${host.binary})` }, kvm];
  } catch (error) {
    return [{ verdict: "fail", what: "QEMU", detail: messageOf(error) }];
  } finally {
    await rm(cacheFile, { force: true });
  }
}

/** Programs, and the Debian packages that bring them. */
const programs: readonly (readonly [string, string, Verdict])[] = [
  ["qemu-img", "qemu-utils", "warn"],
  ["cp", "coreutils", "fail"],
  ["mke2fs", "e2fsprogs", "warn"],
  ["dnsmasq", "dnsmasq-base", "warn"],
  ["nft", "nftables", "warn"],
];

async function tools({ settings }: CommandSession): Promise<Finding[]> {
  const folders = [...settings.path.split(delimiter), "/usr/sbin", "/sbin"];
  return Promise.all(
    programs.map(async ([program, debian, verdict]): Promise<Finding> => {
      const found = await Promise.all(
        folders.map((folder) => isThere(join(folder, program), constants.X_OK)),
      );
      if (found.includes(true)) return { verdict: "ok", what: program, detail: "found" };
      return { verdict, what: program, detail: `missing: install the package ${debian}` };
    }),
  );
}

async function firmware(): Promise<Finding[]> {
  const files = [
    ["BIOS", "/usr/share/seabios/bios-256k.bin", "seabios", "fail"],
    ["UEFI", "/usr/share/OVMF/OVMF_CODE_4M.fd", "ovmf", "warn"],
  ] as const;
  return Promise.all(
    files.map(async ([what, path, debian, verdict]): Promise<Finding> => {
      if (await isThere(path)) return { verdict: "ok", what, detail: path };
      return { verdict, what, detail: `${path} is missing: install the package ${debian}` };
    }),
  );
}

async function store({ settings }: CommandSession): Promise<Finding> {
  const what = "store";
  try {
    await mkdir(settings.rootDir, { recursive: true });
    const file = join(settings.rootDir, `doctor-${newId()}`);
    await writeFile(file, "");
    const linked = await link(file, `${file}-link`).then(
      () => true,
      () => false,
    );
    await rm(file, { force: true });
    await rm(`${file}-link`, { force: true });
    if (!linked)
      return {
        verdict: "warn",
        what,
        detail: `${settings.rootDir} has no hard links: clones copy their disks`,
      };
    const { bavail, bsize, type } = await statfs(settings.rootDir);
    if (type === tmpfsType)
      return {
        verdict: "warn",
        what,
        detail: `${settings.rootDir} is a file system in memory: guests' memory takes room there too, and when it is full they crash instead of waiting; use --root-dir`,
      };
    const free = bavail * bsize;
    const verdict = free < 5 * gibibyte ? "warn" : "ok";
    return { verdict, what, detail: `${settings.rootDir}, ${formatSize(free)} free` };
  } catch (error) {
    return {
      verdict: "fail",
      what,
      detail: `${settings.rootDir} cannot be written: ${messageOf(error)}; use --root-dir`,
    };
  }
}

/** Saving page by page reads another process's memory. */
async function pageAccess(): Promise<Finding> {
  const what = "page access";
  const scope = await readFile("/proc/sys/kernel/yama/ptrace_scope", "latin1").then(
    (text) => Number(text),
    () => 0,
  );
  if (scope === 0 || process.getuid?.() === 0)
    return { verdict: "ok", what, detail: "guests are saved page by page" };
  return {
    verdict: "warn",
    what,
    detail: `kernel.yama.ptrace_scope is ${scope}: VMs that another process started are saved as a whole stream, which freezes them longer; set it to 0, or give CAP_SYS_PTRACE`,
  };
}

async function tun(): Promise<Finding> {
  const usable = await isThere("/dev/net/tun", constants.R_OK | constants.W_OK);
  const what = "bridge network";
  if (usable && process.getuid?.() === 0) return { verdict: "ok", what, detail: "/dev/net/tun is usable" };
  return {
    verdict: "warn",
    what,
    detail: "needs root and /dev/net/tun; VMs use the user network: no ICMP, only forwarded ports",
  };
}

async function vsock(): Promise<Finding> {
  const usable = await isThere("/dev/vhost-vsock", constants.R_OK | constants.W_OK);
  const detail = usable
    ? "/dev/vhost-vsock is usable"
    : "no /dev/vhost-vsock; the agent is reached by virtio-serial";
  return { verdict: "ok", what: "vsock", detail };
}

async function cgroups({ settings }: CommandSession): Promise<Finding> {
  const what = "cgroups";
  const root = (await isThere("/sys/fs/cgroup/cgroup.controllers")) ? "/sys/fs/cgroup" : "/sys/fs/cgroup/cpu";
  const usable = await isThere(root, constants.W_OK);
  if (usable) return { verdict: "ok", what, detail: `limits are set below ${settings.cgroupParent}` };
  return {
    verdict: "warn",
    what,
    detail: "not permitted to make cgroups: VMs have no CPU and memory limits beyond their own size",
  };
}

async function isThere(path: string, mode: number = constants.R_OK): Promise<boolean> {
  return access(path, mode).then(
    () => true,
    () => false,
  );
}
