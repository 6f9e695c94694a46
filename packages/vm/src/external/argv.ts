/** Command lines of the external `cocoon`. Pure. The vintage's table decides which flags are sent, and in which order. */
import type { CloneSpec, DataDisk, ExecRequest, NetworkSpec, RunSpec } from "../requests.ts";
import type { Snapshot } from "../snapshot.ts";
import type { Vintage } from "./vintage.ts";

/** Per flag: one value, several, `true` for a flag without value; undefined is not sent. */
type Flags = Readonly<Record<string, string | number | readonly string[] | true | undefined>>;

function emit(order: readonly string[], flags: Flags): readonly string[] {
  return order.flatMap((flag) => {
    const value = flags[flag];
    if (value === undefined) return [];
    if (value === true) return [flag];
    return typeof value === "object" ? value.flatMap((each) => [flag, each]) : [flag, String(value)];
  });
}

export function runArguments(spec: RunSpec, vintage: Vintage): readonly string[] {
  const verb = spec.start === false ? "create" : "run";
  const flags = emit(vintage.run, {
    ...commonFlags(spec),
    "--nics": spec.nics,
    "--cpu": spec.cpus,
    "--memory": spec.memoryBytes,
    "--storage": spec.storageBytes,
    "--windows": spec.os === "windows" || undefined,
    "--fc": spec.backend === "firecracker" || undefined,
    "--user": spec.login?.user,
    "--data-disk": spec.dataDisks?.map(formatDisk),
    "--display": spec.display || undefined,
  });
  return ["vm", verb, "--output", "json", "--name", spec.name, ...flags, spec.image];
}

function formatDisk({ sizeBytes, name, fsType, mountPoint }: DataDisk): string {
  const mount = mountPoint === undefined ? [] : [`mount=${mountPoint}`];
  return [`size=${sizeBytes}`, `name=${name}`, `fstype=${fsType}`, ...mount].join(",");
}

/** What the snapshot itself decides about its clone. */
export type CloneSource = Pick<Snapshot, "hypervisor" | "config" | "nics">;

/** Firecracker takes over CPUs, memory and interfaces as they were saved. */
export function cloneArguments(spec: CloneSpec, source: CloneSource, vintage: Vintage): readonly string[] {
  const mode = spec.restoreMode ?? "mmap";
  const fixed = source.hypervisor === "firecracker";
  // Windows is saved without interfaces where the command can take them out; a clone needs one again.
  const nics = spec.nics ?? (source.config.os === "windows" && source.nics === 0 ? 1 : undefined);
  const flags = emit(vintage.clone, {
    ...commonFlags(spec),
    "--cpu": fixed ? undefined : spec.cpus,
    "--memory": fixed ? undefined : spec.memoryBytes,
    "--storage": spec.storageBytes,
    "--nics": fixed ? undefined : nics,
    "--pull": source.config.image === undefined ? undefined : true,
    "--on-demand": fixed || mode === "copy" ? undefined : true,
    "--restore-mode": fixed && mode !== "copy" ? undefined : mode,
  });
  return ["vm", "clone", "--output", "json", "--name", spec.name, ...flags, spec.snapshot];
}

function commonFlags(spec: NetworkSpec & Pick<RunSpec, "cpuPolicy" | "directIo">): Flags {
  return {
    "--network": spec.network,
    "--queue-size": spec.queueSize,
    "--no-direct-io": spec.directIo === false || undefined,
    "--cpu-weight": spec.cpuPolicy?.weight,
    "--cpu-quota-us": spec.cpuPolicy?.quotaMicros,
    "--cpu-period-us": spec.cpuPolicy?.periodMicros,
  };
}

export function execArguments(id: string, request: ExecRequest): readonly string[] {
  const env = Object.entries(request.env ?? {}).sort(([one], [other]) => (one < other ? -1 : 1));
  const input = request.stdin ? ["-i"] : [];
  return [
    "vm",
    "exec",
    ...input,
    ...env.flatMap(([key, value]) => ["-e", `${key}=${value}`]),
    id,
    "--",
    ...request.argv,
  ];
}

/** The console's history where the command keeps it, else the log of the hypervisor; undefined where it has neither. */
export function logArguments(id: string, vintage: Vintage): readonly string[] | undefined {
  if (!vintage.verbs.has("logs")) return undefined;
  return ["vm", "logs", ...(vintage.name === "node" ? ["--console"] : []), id];
}

/** Takes network interfaces out of a running VM, or puts them back; undefined where the command cannot. */
export function nicArguments(id: string, nics: number, vintage: Vintage): readonly string[] | undefined {
  return vintage.verbs.has("net") ? ["vm", "net", "--nics", String(nics), id] : undefined;
}
