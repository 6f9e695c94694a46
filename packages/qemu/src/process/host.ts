/**
 * What this host offers: which QEMU, which machine types, which CPU, and whether KVM really runs a guest.
 * Answers are kept in a file until QEMU, the host's boot or the rights change: the command line needs them every time.
 */
import { createHash } from "node:crypto";
import { constants } from "node:fs";
import { access, readFile, realpath, stat } from "node:fs/promises";
import { delimiter, join } from "node:path";
import { Fault, tryParseJson, tryReadFile, writeFileAtomically, type Abortable } from "@cocoon/core";
import * as z from "zod";
import { runBriefly, runProbeGuest } from "./probe-guest.ts";

const hostSchema = z.object({
  binary: z.string(),
  version: z.string(),
  /** The versioned names behind the aliases. */
  machineTypes: z.object({ pc: z.string(), q35: z.string() }),
  /** All machine types this QEMU can be. */
  supportedTypes: z.array(z.string()),
  accelerator: z.enum(["kvm", "tcg"]),
  /** Why KVM is not used; empty when it is. */
  whyNotKvm: z.string(),
  cpuModel: z.string(),
  cpuClass: z.string(),
});

export type QemuHost = Readonly<z.infer<typeof hostSchema>>;

export interface ProbeOptions extends Abortable {
  /** Name in PATH, or path. */
  readonly binary: string;
  readonly accelerator: "auto" | "kvm" | "tcg";
  readonly path: string;
  readonly cacheFile: string;
}

const cacheSchema = z.object({ key: z.string(), host: hostSchema });

/** `unavailable` when there is no QEMU, or no KVM although it is demanded. */
export async function probeHost(options: ProbeOptions): Promise<QemuHost> {
  const binary = await findBinary(options);
  const key = await cacheKey(binary, options);
  const known = await readCache(options.cacheFile, key);
  if (known) return known;
  const host = await examine(binary, options);
  await writeFileAtomically(options.cacheFile, JSON.stringify({ key, host }), { mode: 0o600 });
  return host;
}

async function findBinary({ binary, path }: ProbeOptions): Promise<string> {
  const candidates = binary.includes("/")
    ? [binary]
    : path.split(delimiter).map((folder) => join(folder, binary));
  for (const candidate of candidates) {
    try {
      await access(candidate, constants.X_OK);
      return await realpath(candidate);
    } catch {
      continue; // not here
    }
  }
  throw new Fault(
    "unavailable",
    `${binary} not found: install the package qemu-system-x86, or name it by --qemu-binary`,
  );
}

async function cacheKey(binary: string, options: ProbeOptions): Promise<string> {
  const [file, bootId] = await Promise.all([
    stat(binary),
    readFile("/proc/sys/kernel/random/boot_id", "latin1"),
  ]);
  const mayUseKvm = await isAccessible("/dev/kvm");
  return JSON.stringify([2, binary, file.size, file.mtimeMs, bootId.trim(), options.accelerator, mayUseKvm]);
}

async function readCache(file: string, key: string): Promise<QemuHost | undefined> {
  const { data } = cacheSchema.safeParse(tryParseJson((await tryReadFile(file)) ?? ""));
  return data?.key === key ? data.host : undefined; // damaged, or of another version: find out again
}

async function examine(binary: string, options: ProbeOptions): Promise<QemuHost> {
  const [versionText, machineText] = await Promise.all([
    capture(binary, ["--version"], options),
    capture(binary, ["-M", "help"], options),
  ]);
  const version = /version (\d+\.\d+\.\d+)/.exec(versionText)?.[1];
  if (version === undefined) throw new Fault("unavailable", `${binary} does not say its version`);
  const whyNotKvm = await tryKvm(binary, options);
  if (options.accelerator === "kvm" && whyNotKvm !== "")
    throw new Fault("unavailable", `KVM is not usable: ${whyNotKvm}`);
  const accelerator = whyNotKvm === "" ? "kvm" : "tcg";
  return {
    binary,
    version,
    machineTypes: { pc: machineType(machineText, "pc"), q35: machineType(machineText, "q35") },
    supportedTypes: machineText.split("\n").flatMap((line) => /^(\S+) {2,}/.exec(line)?.[1] ?? []),
    accelerator,
    whyNotKvm,
    cpuModel: accelerator === "kvm" ? "host,migratable=on" : "max",
    cpuClass:
      accelerator === "kvm" ? await hostCpuClass() : `tcg-max-${version.split(".").slice(0, 2).join(".")}`,
  };
}

/** `-M help` has lines such as "pc   Standard PC (…) (alias of pc-i440fx-7.2)". */
function machineType(help: string, alias: string): string {
  const line = help.split("\n").find((each) => each.startsWith(`${alias} `));
  const name = line && /\(alias of ([\w.-]+)\)/.exec(line)?.[1];
  if (!name) throw new Fault("unavailable", `this QEMU knows no machine type "${alias}"`);
  return name;
}

/** Model and flags of the host's CPU: a guest that goes on elsewhere must find the same ones. */
async function hostCpuClass(): Promise<string> {
  const text = await readFile("/proc/cpuinfo", "latin1");
  const field = (name: string) => new RegExp(`^${name}\\s*: (.*)$`, "m").exec(text)?.[1] ?? "";
  const flags = field("flags").split(" ").sort().join(" ");
  const digest = createHash("sha256")
    .update(`${field("vendor_id")} ${field("model name")} ${flags}`)
    .digest("hex");
  return `kvm-${digest.slice(0, 16)}`;
}

async function tryKvm(binary: string, options: ProbeOptions): Promise<string> {
  if (options.accelerator === "tcg") return "turned off";
  if (!(await isAccessible("/dev/kvm"))) return "/dev/kvm is missing or not permitted";
  return runProbeGuest({ binary, accelerator: "kvm", deadlineMs: 5_000, signal: options.signal });
}

async function capture(binary: string, args: readonly string[], { signal }: Abortable): Promise<string> {
  const outcome = await runBriefly(binary, args, { signal, deadlineMs: 20_000 });
  if (outcome.code === 0) return outcome.text;
  throw new Fault("unavailable", `${binary} ${args.join(" ")} failed: ${outcome.text.trim() || "no output"}`);
}

async function isAccessible(path: string): Promise<boolean> {
  try {
    await access(path, constants.R_OK | constants.W_OK);
    return true;
  } catch {
    return false;
  }
}
