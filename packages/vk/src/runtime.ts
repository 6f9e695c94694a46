/** What runs the VMs of this host. */
import { execFile } from "node:child_process";
import { access, constants } from "node:fs/promises";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { Fault, getErrorMessage, type Abortable, type Logger, type Registry } from "@cocoon/core";
import { openImageLibrary, type ImagePolicy, type ImageSource } from "@cocoon/images";
import { chooseVmUsers, openQemuRuntime, type QemuOptions } from "@cocoon/qemu";
import { isNodeCommand, openCliRuntime, openLeaseFinder, withMacos, type VmRuntime } from "@cocoon/vm";
import type { VkConfig } from "./config.ts";
import { withLeases } from "./leases.ts";
import { createNetworkMetrics } from "./network-metrics.ts";
import { enforcesPolicies, honoursPolicies, openNetworks } from "./networks.ts";
import { readRegistryAccess } from "./registry.ts";

export interface RuntimeContext extends Abortable {
  readonly log: Logger;
  /** Where images come from that are no URLs. */
  readonly images: ImageSource;
  /** Where calls of the network's plugins are counted. */
  readonly metrics?: Registry;
}

const run = promisify(execFile);
const dnsmasqLeases = "/var/lib/dnsmasq/dnsmasq.leases";

export interface OpenedRuntime {
  readonly runtime: VmRuntime;
  /** Whether NetworkPolicies are this node's to enforce. */
  readonly enforcesPolicies: boolean;
  /** Whether they hold for its machines, by whatever means. */
  readonly honoursPolicies: boolean;
}

export async function openRuntime(config: VkConfig, context: RuntimeContext): Promise<OpenedRuntime> {
  const kind = await chooseRuntime(config, context);
  context.log.info({ runtime: kind }, "VMs are run by this");
  const { runtime, ...opened } =
    kind === "qemu"
      ? await openQemu(config, context)
      : {
          runtime: await openCommand(config, context),
          enforcesPolicies: config.networkPolicy === "enforce",
          honoursPolicies: config.networkPolicy === "enforce",
        };
  return { ...opened, runtime: await addMacos(runtime, config, context) };
}

/** macOS guests have a program of their own; where it is installed, it must work. */
export async function addMacos(
  runtime: VmRuntime,
  config: Pick<VkConfig, "macosBin" | "macosHome" | "path" | "leasesPath" | "rootDirectory" | "dockerConfig">,
  { log, signal }: Abortable & Pick<RuntimeContext, "log">,
): Promise<VmRuntime> {
  const { macosBin, macosHome, path, dockerConfig } = config;
  try {
    await access(macosBin, constants.X_OK);
  } catch {
    return runtime;
  }
  log.info({ program: macosBin }, "macOS guests are run by this");
  const env = { PATH: path, COCOON_MACOS_HOME: macosHome, DOCKER_CONFIG: dirname(dockerConfig) };
  return withMacos(runtime, {
    command: { argv: [macosBin], env },
    findLease: openLeaseFinder(listLeaseFiles(config)),
    signal,
  });
}

function listLeaseFiles({
  rootDirectory,
  leasesPath,
}: Pick<VkConfig, "leasesPath" | "rootDirectory">): string[] {
  return leasesPath ? [leasesPath] : [join(rootDirectory, "net", "leases.json"), dnsmasqLeases];
}

/**
 * An installed external command holds the host's VMs, so it wins; our own `cocoon` works on the same
 * files as the built-in engine, which can do more.
 */
export async function chooseRuntime(
  { runtime, cocoonBin }: Pick<VkConfig, "runtime" | "cocoonBin">,
  { signal }: Abortable,
): Promise<"qemu" | "cocoon"> {
  if (runtime !== "auto") return runtime;
  try {
    await access(cocoonBin, constants.X_OK);
    const { stdout } = await run(cocoonBin, ["version"], { signal, timeout: 10_000 });
    return isNodeCommand(stdout) ? "qemu" : "cocoon";
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return "qemu";
    throw new Fault(
      "unavailable",
      `${cocoonBin} is there but does not run (${getErrorMessage(error).split("\n", 1)[0]}); repair it, or choose with VK_RUNTIME=qemu`,
      { cause: error },
    );
  }
}

function openCommand(config: VkConfig, { log, signal }: RuntimeContext): Promise<VmRuntime> {
  const { rootDirectory } = config;
  return openCliRuntime({
    command: [config.cocoonBin],
    sudo: config.cocoonSudo,
    rootDirectory,
    leasesPaths: listLeaseFiles(config),
    env: { PATH: config.path, COCOON_ROOT_DIR: rootDirectory, COCOON_CGROUP_PARENT: config.cgroupParent },
    log,
    signal,
  });
}

/** Where images of this node may come from. */
export function readImagePolicy({
  imageFileRoots = [],
  imagePrivateHosts = [],
}: Pick<VkConfig, "imageFileRoots" | "imagePrivateHosts">): ImagePolicy {
  return { fileRoots: imageFileRoots, privateHosts: imagePrivateHosts.map((host) => host.toLowerCase()) };
}

/** The chunk store is the one that pushes and pulls use as well. */
function readLazySettings(config: VkConfig): NonNullable<QemuOptions["lazy"]> {
  const store = {
    directory: join(config.rootDirectory, "chunks"),
    limitBytes: config.chunkStoreMib * 1024 * 1024,
  };
  return { registry: readRegistryAccess(config), store };
}

async function openQemu(
  config: VkConfig,
  { log, signal, images, metrics }: RuntimeContext,
): Promise<OpenedRuntime> {
  const { rootDirectory, leasesPath } = config;
  const runAs = config.vmUsers === "auto" ? await chooseVmUsers(rootDirectory, log) : undefined;
  const networks = await openNetworks(config, {
    signal,
    log,
    ...(runAs ? { firstFreePort: 1024 } : {}),
    ...(metrics ? { onCall: createNetworkMetrics(metrics) } : {}),
  });
  const runtime = await openQemuRuntime({
    rootDirectory,
    images: openImageLibrary({
      directory: config.imageDirectory ?? join(rootDirectory, "images"),
      source: images,
      policy: readImagePolicy(config),
    }),
    networks,
    ...(runAs ? { runAs } : {}),
    path: config.path,
    cgroupParent: config.cgroupParent,
    ...(config.lazyWake === "auto" ? { lazy: readLazySettings(config) } : {}),
    allowHostLoopback: config.allowHostLoopback === "true",
    log,
    signal,
  });
  return {
    runtime: withLeases(runtime, { named: leasesPath, usual: leasesPath ? [] : [dnsmasqLeases] }),
    enforcesPolicies: await enforcesPolicies(config, networks),
    honoursPolicies: await honoursPolicies(config, networks),
  };
}
