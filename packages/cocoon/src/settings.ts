/**
 * Settings of the command: flags, then environment, then the file of `--config`, then defaults. Keys that mean
 * something only to another hypervisor are accepted and not used, so that an existing file keeps working.
 */
import { readFileSync } from "node:fs";
import { Fault, getErrorMessage } from "@cocoon/core";
import { parse } from "yaml";
import * as z from "zod";

export interface GlobalFlags {
  readonly config?: string;
  readonly rootDir?: string;
  readonly dns?: string;
  readonly logLevel?: string;
}

type Env = Readonly<Record<string, string | undefined>>;

const whole = z.coerce.number().int();

const fileSchema = z
  .object({
    root_dir: z.string().default("/var/lib/cocoon"),
    dns: z.union([z.string(), z.array(z.string())]).default("8.8.8.8,1.1.1.1"),
    stop_timeout_seconds: whole.positive("stop_timeout_seconds must be > 0").default(30),
    pool_size: whole.nonnegative().default(0),
    cgroup_parent: z.string().default("cocoon.slice"),
    qemu_binary: z.string().default("qemu-system-x86_64"),
    accelerator: z.enum(["auto", "kvm", "tcg"]).default("auto"),
    cni_conf_dir: z.string().default("/etc/cni/net.d"),
    cni_bin_dir: z.string().default("/opt/cni/bin:/usr/lib/cni"),
    allow_host_loopback: z
      .union([z.boolean(), z.enum(["true", "false"])])
      .default(false)
      .transform((value) => value === true || value === "true"),
    log: z
      .object({ level: z.string().default("info") })
      .loose()
      .prefault({}),
  })
  .loose();

const envKeys = Object.keys(fileSchema.shape).filter((key) => key !== "log");

export type CommandSettings = Readonly<ReturnType<typeof readSettings>>;

// oxlint-disable-next-line typescript/explicit-module-boundary-types -- the type is made from it
export function readSettings(flags: GlobalFlags, env: Env) {
  const fromEnv = Object.fromEntries(
    envKeys.flatMap((key) => {
      const value = env[`COCOON_${key.toUpperCase()}`];
      return value ? [[key, value]] : [];
    }),
  );
  const fromFlags = {
    ...(flags.rootDir ? { root_dir: flags.rootDir } : {}),
    ...(flags.dns ? { dns: flags.dns } : {}),
    ...(flags.logLevel ? { log: { level: flags.logLevel } } : {}),
  };
  const parsed = fileSchema.safeParse({ ...readFile(flags.config), ...fromEnv, ...fromFlags });
  if (!parsed.success)
    throw new Fault(
      "invalid",
      `config: ${parsed.error.issues.map((issue) => `${issue.path.join(".")}: ${issue.message}`).join("; ")}`,
    );
  const { data } = parsed;
  return {
    rootDir: data.root_dir,
    dns: readDns(data.dns),
    logLevel: data.log.level,
    stopTimeoutSeconds: data.stop_timeout_seconds,
    poolSize: data.pool_size,
    cgroupParent: data.cgroup_parent,
    qemuBinary: data.qemu_binary,
    accelerator: data.accelerator,
    cniConfDir: data.cni_conf_dir,
    cniBinDirs: data.cni_bin_dir.split(":").filter(Boolean),
    allowHostLoopback: data.allow_host_loopback,
    path: env["PATH"] ?? "",
  };
}

function readFile(path: string | undefined): Readonly<Record<string, unknown>> {
  if (path === undefined) return {};
  try {
    const content: unknown = parse(readFileSync(path, "utf8"));
    return z.record(z.string(), z.unknown()).parse(content ?? {});
  } catch (error) {
    throw new Fault("invalid", `read config ${path}: ${getErrorMessage(error)}`, { cause: error });
  }
}

function readDns(value: string | readonly string[]): readonly string[] {
  const list = (typeof value === "string" ? value.split(/[,;]/) : value)
    .map((each) => each.trim())
    .filter(Boolean);
  const wrong = list.find((each) => !z.ipv4().safeParse(each).success && !z.ipv6().safeParse(each).success);
  if (wrong !== undefined) throw new Fault("invalid", `invalid DNS server "${wrong}": not an IP address`);
  return list;
}
