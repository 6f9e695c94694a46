/** A host for tests of the CNI network: network and mount namespaces of its own, which end with everything in them. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, readdir, readlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { signalProcess, tryIdentify } from "@cocoon/core";
import { killChild, requireRoot, runCommand, temporaryDirectory, type CommandResult } from "@cocoon/testkit";

export interface CniHost extends AsyncDisposable {
  readonly directory: string;
  readonly confDirectory: string;
  /** Addresses that host-local has handed out. */
  listLeased(network?: string): Promise<string[]>;
  inside(...command: readonly string[]): Promise<CommandResult>;
  /** Fails the test when the command does. */
  must(...command: readonly string[]): Promise<string>;
  /** Command line that runs something beside the holder. */
  enter(...command: readonly string[]): [string, string[]];
  writeList(file: string, list: unknown): Promise<void>;
  /** What machines have on this host: namespaces, taps and the host's ends of their interfaces. */
  listLeftovers(): Promise<string[]>;
}

export async function openCniHost(): Promise<CniHost> {
  requireRoot("make network namespaces");
  const files = await temporaryDirectory();
  const script =
    "mount -t tmpfs none /run && mkdir -p /run/netns && ip link set lo up && echo ready && sleep infinity";
  const holder = spawn("unshare", ["--net", "--mount", "sh", "-c", script], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  await once(holder.stdout, "data");
  const enter = (...command: readonly string[]): [string, string[]] => [
    "nsenter",
    ["-t", String(holder.pid), "--net", "--mount", ...command],
  ];
  const inside = (...command: readonly string[]) => runCommand(...enter(...command), { timeoutMs: 600_000 });
  const confDirectory = join(files.path, "net.d");
  await mkdir(confDirectory);
  const host: CniHost = {
    directory: files.path,
    confDirectory,
    enter,
    inside,
    must: async (...command) => {
      const done = await inside(...command);
      assert.equal(done.code, 0, `${command.join(" ")}: ${done.stderr}${done.stdout}`);
      return done.stdout;
    },
    writeList: (file, list) => writeFile(join(confDirectory, file), JSON.stringify(list)),
    listLeased: async (network = "machines") => {
      const found = await readdir(join(files.path, "ipam", network)).catch(() => []);
      return found.filter((name) => /^\d+\.\d+\.\d+\.\d+$/.test(name));
    },
    listLeftovers: async () => {
      const namespaces = (await host.must("ls", "/run/netns")).split("\n").filter(Boolean);
      const links = (await host.must("ip", "-o", "link")).match(/(?:veth|tap|bt)[^:@ ]*/g) ?? [];
      return [...namespaces, ...links];
    },
    [Symbol.asyncDispose]: async () => {
      await endAllIn(holder.pid ?? 0);
      await killChild(holder);
      await files[Symbol.asyncDispose]();
    },
  };
  return host;
}

/** QEMU has namespaces of its own, but its machine's directory is the test's: by it a failed test's VMs are found. */
async function endAllIn(holder: number): Promise<void> {
  const own = await readlink(`/proc/${holder}/ns/mnt`).catch(() => "gone");
  for (const pid of (await readdir("/proc")).filter((name) => /^\d+$/.test(name))) {
    if (Number(pid) === holder) continue;
    const space = await readlink(`/proc/${pid}/ns/mnt`).catch(() => "");
    const identity = space === own ? tryIdentify(Number(pid)) : undefined;
    if (identity) signalProcess(identity, "SIGKILL");
  }
}

/** A bridge as flannel and most guides have it, with the plugins that Kubernetes' features need. */
export function bridgeList(host: CniHost, more: Record<string, unknown> = {}): unknown {
  return {
    cniVersion: "1.0.0",
    name: "machines",
    plugins: [
      {
        type: "bridge",
        bridge: "cni0",
        isGateway: true,
        ipMasq: true,
        hairpinMode: true,
        mtu: 1450,
        ipam: {
          type: "host-local",
          dataDir: join(host.directory, "ipam"),
          ranges: [[{ subnet: "10.77.0.0/24" }]],
          routes: [{ dst: "0.0.0.0/0" }],
          ...more,
        },
      },
      { type: "portmap", capabilities: { portMappings: true } },
      { type: "firewall" },
      { type: "bandwidth", capabilities: { bandwidth: true } },
    ],
  };
}

/** Each machine on a routed link of its own: neighbours are reached through the host only. */
export function ptpList(host: CniHost): unknown {
  return {
    cniVersion: "0.4.0",
    name: "machines",
    plugins: [
      {
        type: "ptp",
        ipMasq: false,
        ipam: {
          type: "host-local",
          dataDir: join(host.directory, "ipam"),
          ranges: [[{ subnet: "10.78.0.0/24" }]],
          routes: [{ dst: "0.0.0.0/0" }],
        },
      },
    ],
  };
}
