/** Command lines for making VMs, in the order in which clients of the command have always given them. */
import type { CloneSpec, CpuPolicy, NetworkWish, RunSpec } from "../runtime.ts";
import type { Vintage } from "./vintage.ts";

export function runArguments(spec: RunSpec, vintage: Vintage): readonly string[] {
  return [
    "vm",
    spec.start === false ? "create" : "run",
    "--output",
    "json",
    "--name",
    spec.name,
    ...value("--cpu", spec.cpus),
    ...policyFlags(spec.cpuPolicy),
    ...value("--memory", spec.memoryBytes),
    ...value("--storage", spec.storageBytes),
    ...networkFlags(spec),
    ...(spec.nics === undefined ? [] : value("--nics", spec.nics)),
    ...(spec.os === "windows" ? ["--windows"] : []),
    ...(spec.login?.user === undefined ? [] : ["--user", spec.login.user]),
    ...(spec.dataDisks ?? []).flatMap((disk) => [
      "--data-disk",
      [
        `size=${disk.sizeBytes}`,
        `name=${disk.name}`,
        `fstype=${disk.fsType}`,
        ...(disk.mountPoint === undefined ? [] : [`mount=${disk.mountPoint}`]),
      ].join(","),
    ]),
    ...(spec.display && vintage.display ? ["--display"] : []),
    spec.image,
  ];
}

export function cloneArguments(spec: CloneSpec, vintage: Vintage): readonly string[] {
  const sizes = vintage.cloneSizes
    ? [
        ...value("--cpu", spec.cpus),
        ...value("--memory", spec.memoryBytes),
        ...value("--storage", spec.storageBytes),
      ]
    : [];
  const mode = spec.restoreMode ?? "mmap";
  const modes = {
    "on-demand": mode === "copy" ? [] : ["--on-demand"],
    "restore-mode": ["--restore-mode", mode],
    none: [],
  } as const;
  return [
    "vm",
    "clone",
    "--output",
    "json",
    "--name",
    spec.name,
    ...sizes,
    ...networkFlags(spec),
    ...(spec.nics === undefined ? [] : value("--nics", spec.nics)),
    ...modes[vintage.cloneMode],
    ...policyFlags(spec.cpuPolicy),
    spec.snapshot,
  ];
}

function value(flag: string, amount: number | undefined): readonly string[] {
  return amount === undefined ? [] : [flag, String(amount)];
}

function networkFlags({ network, queueSize }: NetworkWish): readonly string[] {
  return [...(network === undefined ? [] : ["--network", network]), ...value("--queue-size", queueSize)];
}

function policyFlags(policy: CpuPolicy | undefined): readonly string[] {
  return [
    ...value("--cpu-weight", policy?.weight),
    ...value("--cpu-quota-us", policy?.quotaMicros),
    ...value("--cpu-period-us", policy?.periodMicros),
  ];
}
