/** Flags of `vm create|run|debug|clone`, of all vintages, as commander options and as what the runtime is asked for. */
import { Fault } from "@cocoon/core";
import type { Command } from "commander";
import type { CloneSpec, CpuPolicy, DataDisk, NetworkWish, RunSpec } from "../runtime.ts";
import { keptLabels } from "../wire/vm-json.ts";
import { parseSize } from "./sizes.ts";

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

function addCommon(command: Command): Command {
  return command
    .option("--name <name>", "name of the VM")
    .option("--queue-size <n>", "ring depth of network queues, 0 = 512", "0")
    .option("--disk-queue-size <n>", "ring depth of disk queues (kept, not used)", "0")
    .option("--network <name>", "network: user or bridge")
    .option("--bridge <device>", "bridge device; excludes --network")
    .option("--no-direct-io", "kept, not used")
    .option("--cpu-weight <n>", "share of CPU against others, 1..10000")
    .option("--cpu-quota-us <n>", "CPU time per period in microseconds")
    .option("--cpu-period-us <n>", "length of the period in microseconds")
    .option("--cpu-burst-us <n>", "accepted, not used")
    .option("--cpuset-cpus <list>", "accepted, not used")
    .option("--dns <list>", "DNS servers")
    .option("-o, --output <format>", 'only "json" means anything');
}

export function addRunFlags(command: Command): Command {
  return addCommon(command)
    .option("--fc", "as for firecracker: OCI images only; excludes --windows")
    .option("--cpu <n>", "vCPUs", "2")
    .option("--memory <size>", "memory, at least 64M", "1G")
    .option("--storage <size>", "root disk, at least 64M", "10G")
    .option("--nics <n>", "network interfaces, 0 = none", "1")
    .option("--user <name>", "user to make at first boot", "root")
    .option("--password <text>", "its password", "cocoon")
    .option("--windows", "UEFI image with Windows")
    .option(
      "--data-disk <spec>",
      "size=20G[,name=…][,fstype=ext4|none][,mount=/mnt/x]; repeatable",
      collect,
      [],
    )
    .option("--display", "give it a screen (VNC on a private socket)")
    .option("--shared-memory", "accepted, not used")
    .option("--hugepages", "accepted, not used")
    .option("--mergeable", "accepted, not used");
}

export function addCloneFlags(command: Command): Command {
  return addCommon(command)
    .option("--cpu <n>", "not below the snapshot's", "0")
    .option("--memory <size>", "not below the snapshot's", "")
    .option("--storage <size>", "not below the snapshot's", "")
    .option("--nics <n>", "0 = as the snapshot", "0")
    .option("--on-demand", "always so: memory is mapped, not copied")
    .option("--restore-mode <mode>", "copy, ondemand or mmap: all map", "mmap")
    .option("--pull", "fetch the base image if it is missing (a snapshot brings its own)")
    .option("--from-dir <directory>", "clone a snapshot that lies in a directory");
}

function collect(value: string, before: readonly string[]): readonly string[] {
  return [...before, value];
}

/** `cocoon-<repository with / as ->[-<tag unless latest>]`, cut to 63. */
export function defaultName(image: string): string {
  const bare = image.replace(/^https?:\/\//, "").replace(/@sha256:[0-9a-f]+$/, "");
  const tag = /:([\w.-]+)$/.exec(bare)?.[1];
  const repository = tag === undefined ? bare : bare.slice(0, -(tag.length + 1));
  const suffix = tag === undefined || tag === "latest" ? "" : `-${tag}`;
  return `cocoon-${repository}${suffix}`.replaceAll(/[^a-zA-Z0-9._-]/g, "-").slice(0, 63);
}

export function runSpecOf(image: string, flags: RunFlags): RunSpec {
  if (flags.fc && flags.windows) throw new Fault("invalid", "--fc and --windows are mutually exclusive");
  checkLogin(flags);
  const policy = cpuPolicyOf(flags);
  return {
    name: flags.name ?? defaultName(image),
    image,
    cpus: wholeNumber(flags.cpu, "cpu"),
    memoryBytes: parseSize(flags.memory, "memory"),
    storageBytes: parseSize(flags.storage, "storage"),
    ...networkOf(flags),
    nics: wholeNumber(flags.nics ?? "1", "nics"),
    ...(flags.windows ? { os: "windows" } : {}),
    login: { user: flags.user, password: flags.password },
    dataDisks: (flags.dataDisk ?? []).map(readDataDisk),
    ...(flags.display ? { display: true } : {}),
    ...(policy ? { cpuPolicy: policy } : {}),
    labels: labelsOf(flags),
  };
}

/** Sizes that are zero or empty are the snapshot's. */
export function cloneSpecOf(snapshot: string, flags: CloneFlags): Omit<CloneSpec, "name"> {
  const [cpus, nics] = [wholeNumber(flags.cpu ?? "0", "cpu"), wholeNumber(flags.nics ?? "0", "nics")];
  const policy = cpuPolicyOf(flags);
  return {
    snapshot,
    ...(cpus > 0 ? { cpus } : {}),
    ...(flags.memory ? { memoryBytes: parseSize(flags.memory, "memory") } : {}),
    ...(flags.storage ? { storageBytes: parseSize(flags.storage, "storage") } : {}),
    ...networkOf(flags),
    ...(nics > 0 ? { nics } : {}),
    ...(policy ? { cpuPolicy: policy } : {}),
    labels: labelsOf(flags),
  };
}

function networkOf(flags: CommonFlags): NetworkWish {
  if (flags.network && flags.bridge)
    throw new Fault("invalid", "--network and --bridge are mutually exclusive");
  const network = flags.bridge ? "bridge" : flags.network;
  const queueSize = wholeNumber(flags.queueSize ?? "0", "queue-size");
  return { ...(network ? { network } : {}), ...(queueSize > 0 ? { queueSize } : {}) };
}

function labelsOf(flags: CommonFlags): Record<string, string> {
  const labels: Record<string, string> = {};
  if (Number(flags.queueSize) > 0) labels[keptLabels.queueSize] = String(flags.queueSize);
  if (Number(flags.diskQueueSize) > 0) labels[keptLabels.diskQueueSize] = String(flags.diskQueueSize);
  if (flags.directIo === false) labels[keptLabels.noDirectIo] = "true";
  return labels;
}

function cpuPolicyOf(flags: CommonFlags): CpuPolicy | undefined {
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

export function readDataDisk(text: string, index: number): DataDisk {
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
