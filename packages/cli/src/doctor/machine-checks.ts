/** Whether this host can run machines: an emulator, what images are built with, how it can be made faster. */
import { access, constants } from "node:fs/promises";
import { delimiter, join } from "node:path";
import type { Check, CheckResult } from "./check.ts";

export const machineChecks: readonly Check[] = [
  {
    name: "QEMU",
    run: ({ env }) => needs(env, ["qemu-system-x86_64", "qemu-img"], "qemu-system-x86 qemu-utils"),
  },
  {
    name: "image tools",
    run: ({ env }) =>
      needs(
        env,
        ["cpio", "mke2fs", "debugfs", "dpkg-deb", "gcc", "mmdebstrap"],
        "cpio e2fsprogs dpkg gcc libc6-dev mmdebstrap",
      ),
  },
  { name: "ping", run: ({ env }) => needs(env, ["ping"], "iputils-ping") },
  { name: "virtualisation", run: checkKvm },
];

async function needs(
  env: Readonly<Record<string, string | undefined>>,
  programs: readonly string[],
  packages: string,
): Promise<CheckResult> {
  const places = [...(env["PATH"] ?? "").split(delimiter), "/usr/sbin", "/sbin"];
  const missing: string[] = [];
  for (const program of programs) {
    const found = await Promise.all(places.map((place) => isExecutable(join(place, program))));
    if (!found.includes(true)) missing.push(program);
  }
  if (missing.length === 0) return { state: "ok", found: programs.join(", ") };
  return {
    state: "problem",
    found: `missing: ${missing.join(", ")}`,
    fix: `apt-get install ${packages} (npm run up does it as root)`,
  };
}

async function isExecutable(path: string): Promise<boolean> {
  return access(path, constants.X_OK).then(
    () => true,
    () => false,
  );
}

/** Without it everything works, slower. Whether guests really run with it is found out when the first one starts. */
async function checkKvm(): Promise<CheckResult> {
  const usable = await access("/dev/kvm", constants.R_OK | constants.W_OK).then(
    () => true,
    () => false,
  );
  return {
    state: "ok",
    found: usable ? "/dev/kvm can be opened" : "no /dev/kvm: machines are emulated, which is slower",
  };
}
