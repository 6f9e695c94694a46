/** Flags of `vm create|run|debug|clone`, of all vintages, as a table and as what the runtime gets. */
import { Fault } from "@cocoon/core";
import type { CloneSpec, CpuPolicy, DataDisk, NetworkSpec, RunSpec } from "@cocoon/vm";
import { keptLabels } from "@cocoon/vm/wire";
import { parseSize } from "./sizes.ts";
import type { FlagTable } from "./verbs.ts";

interface CommonFlags {
  readonly name?: string;
  readonly nics?: string;
  readonly queueSize?: string;
  readonly diskQueueSize?: string;
  readonly network?: string;
  readonly bridge?: string;
  readonly directIo?: boolean;
  readonly cpuWeight?: string;
  readonly cpuQuotaUs?: string;
  readonly cpuPeriodUs?: string;
  readonly output?: string;
}

export interface RunFlags extends CommonFlags {
  readonly fc?: boolean;
  readonly cpu: string;
  readonly memory: string;
  readonly storage: string;
  readonly user: string;
  readonly password: string;
  readonly windows?: boolean;
  readonly dataDisk?: readonly string[];
  readonly display?: boolean;
}

export interface CloneFlags extends CommonFlags {
  readonly cpu?: string;
  readonly memory?: string;
  readonly storage?: string;
  readonly pull?: boolean;
  readonly fromDir?: string;
}

const commonFlags: FlagTable = {
  "--name <name>": "name of the VM (default: made from the image or the snapshot)",
  "--queue-size <n>": ["ring depth of network queues, 0 = 512", "0"],
  "--disk-queue-size <n>": ["ring depth of disk queues (kept, not used)", "0"],
  "--network <name>": "network: user, bridge, cni, or the name of a CNI configuration list (default: user)",
  "--bridge <device>": "bridge device; excludes --network",
  "--no-direct-io": "kept, not used",
  "--cpu-weight <n>": "share of CPU against others, 1..10000 (default: the kernel's)",
  "--cpu-quota-us <n>": "CPU time per period in microseconds",
  "--cpu-period-us <n>": "length of the period in microseconds",
  "--cpu-burst-us <n>": "accepted, not used",
  "--cpuset-cpus <list>": "accepted, not used",
  "--dns <list>": "DNS servers (default: those of the host's settings)",
  "-o, --output <format>": 'only "json" means anything',
};

export const dataDiskHelp = "size=20G[,name=…][,fstype=ext4|none][,mount=/mnt/x]; repeatable";

export const runFlags: FlagTable = {
  ...commonFlags,
  "--fc": "as for firecracker: OCI images only; excludes --windows",
  "--cpu <n>": ["vCPUs", "2"],
  "--memory <size>": ["memory, at least 64M", "1G"],
  "--storage <size>": ["root disk, at least 64M", "10G"],
  "--nics <n>": ["network interfaces, 0 = none", "1"],
  "--user <name>": ["user to make at first boot", "root"],
  "--password <text>": ["its password", "cocoon"],
  "--windows": "UEFI image with Windows",
  "--display": "give it a screen (VNC on a private socket)",
  "--shared-memory": "accepted, not used",
  "--hugepages": "accepted, not used",
  "--mergeable": "accepted, not used",
};

export const cloneFlags: FlagTable = {
  ...commonFlags,
  "--cpu <n>": ["not below the snapshot's", "0"],
  "--memory <size>": ["not below the snapshot's", ""],
  "--storage <size>": ["not below the snapshot's", ""],
  "--nics <n>": ["0 = as the snapshot", "0"],
  "--on-demand": "always so: memory is mapped, not copied",
  "--restore-mode <mode>": ["copy, ondemand or mmap: all map", "mmap"],
  "--pull": "fetch the base image if it is missing (a snapshot brings its own)",
  "--from-dir <directory>": "clone a snapshot that lies in a directory",
};

/** `cocoon-<repository with / as ->[-<tag unless latest>]`, cut to 63. */
function defaultName(image: string): string {
  const bare = image.replace(/^https?:\/\//, "").replace(/@sha256:[0-9a-f]+$/, "");
  const tag = /:([\w.-]+)$/.exec(bare)?.[1];
  const repository = tag === undefined ? bare : bare.slice(0, -(tag.length + 1));
  const suffix = tag === undefined || tag === "latest" ? "" : `-${tag}`;
  return `cocoon-${repository}${suffix}`.replaceAll(/[^a-zA-Z0-9._-]/g, "-").slice(0, 63);
}

export function buildRunSpec(image: string, flags: RunFlags): RunSpec {
  if (flags.fc && flags.windows) throw new Fault("invalid", "--fc and --windows are mutually exclusive");
  checkLogin(flags);
  const policy = readCpuPolicy(flags);
  return {
    name: flags.name ?? defaultName(image),
    image,
    cpus: wholeNumber(flags.cpu, "cpu"),
    memoryBytes: parseSize(flags.memory, "memory"),
    storageBytes: parseSize(flags.storage, "storage"),
    ...readNetwork(flags),
    nics: wholeNumber(flags.nics ?? "1", "nics"),
    ...(flags.windows ? { os: "windows" } : {}),
    login: { user: flags.user, password: flags.password },
    dataDisks: (flags.dataDisk ?? []).map(readDataDisk),
    ...(flags.display ? { display: true } : {}),
    ...(policy ? { cpuPolicy: policy } : {}),
    labels: readLabels(flags),
  };
}

/** Sizes that are zero or empty are the snapshot's. */
export function buildCloneSpec(snapshot: string, flags: CloneFlags): Omit<CloneSpec, "name"> {
  const [cpus, nics] = [wholeNumber(flags.cpu ?? "0", "cpu"), wholeNumber(flags.nics ?? "0", "nics")];
  const policy = readCpuPolicy(flags);
  return {
    snapshot,
    ...(cpus > 0 ? { cpus } : {}),
    ...(flags.memory ? { memoryBytes: parseSize(flags.memory, "memory") } : {}),
    ...(flags.storage ? { storageBytes: parseSize(flags.storage, "storage") } : {}),
    ...readNetwork(flags),
    ...(nics > 0 ? { nics } : {}),
    ...(policy ? { cpuPolicy: policy } : {}),
    labels: readLabels(flags),
  };
}

function readNetwork(flags: CommonFlags): NetworkSpec {
  if (flags.network && flags.bridge)
    throw new Fault("invalid", "--network and --bridge are mutually exclusive");
  const network = flags.bridge ? "bridge" : flags.network;
  const queueSize = wholeNumber(flags.queueSize ?? "0", "queue-size");
  return { ...(network ? { network } : {}), ...(queueSize > 0 ? { queueSize } : {}) };
}

function readLabels(flags: CommonFlags): Record<string, string> {
  const labels: Record<string, string> = {};
  if (Number(flags.queueSize) > 0) labels[keptLabels.queueSize] = String(flags.queueSize);
  if (Number(flags.diskQueueSize) > 0) labels[keptLabels.diskQueueSize] = String(flags.diskQueueSize);
  if (flags.directIo === false) labels[keptLabels.noDirectIo] = "true";
  return labels;
}

function readCpuPolicy(flags: CommonFlags): CpuPolicy | undefined {
  const policy = {
    ...(flags.cpuWeight === undefined ? {} : { weight: wholeNumber(flags.cpuWeight, "cpu-weight") }),
    ...(flags.cpuQuotaUs === undefined ? {} : { quotaMicros: wholeNumber(flags.cpuQuotaUs, "cpu-quota-us") }),
    ...(flags.cpuPeriodUs === undefined
      ? {}
      : { periodMicros: wholeNumber(flags.cpuPeriodUs, "cpu-period-us") }),
  };
  if (policy.weight !== undefined && (policy.weight < 1 || policy.weight > 10_000))
    throw new Fault("invalid", "--cpu-weight must be between 1 and 10000");
  return Object.keys(policy).length > 0 ? policy : undefined;
}

export function wholeNumber(text: string, flag: string): number {
  if (!/^\d{1,15}$/.test(text.trim()))
    throw new Fault("invalid", `invalid --${flag} "${text}": use a whole number`);
  return Number(text);
}

/** Characters that a shell would take for its own are refused, as the guest's first boot may pass it through one. */
function checkLogin({ user, password }: RunFlags): void {
  if (!/^[a-z_][a-z0-9_-]{0,31}$/.test(user)) throw new Fault("invalid", `invalid --user "${user}"`);
  if (/[`$;|&(){}\\<>!]/.test(password))
    throw new Fault("invalid", "--password must not contain shell metacharacters");
}

function readDataDisk(text: string, index: number): DataDisk {
  const fields = new Map(
    text.split(",").map((field) => {
      const [key = "", value = ""] = field.split("=", 2);
      return [key.trim(), value.trim()] as const;
    }),
  );
  const unknown = [...fields.keys()].find(
    (key) => !["size", "name", "fstype", "mount", "directio"].includes(key),
  );
  if (unknown !== undefined) throw new Fault("invalid", `--data-disk: unknown field "${unknown}"`);
  const size = fields.get("size");
  if (size === undefined) throw new Fault("invalid", "--data-disk: size is missing");
  const fsType = fields.get("fstype") ?? "ext4";
  if (fsType !== "ext4" && fsType !== "none")
    throw new Fault("invalid", `--data-disk: fstype "${fsType}" is not ext4 or none`);
  const name = fields.get("name") ?? `data${index + 1}`;
  const mountPoint = fields.get("mount") ?? (fsType === "ext4" ? `/mnt/${name}` : undefined);
  return {
    name,
    sizeBytes: parseSize(size, "data-disk size"),
    fsType,
    ...(mountPoint ? { mountPoint } : {}),
  };
}
