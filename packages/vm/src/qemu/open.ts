/** Opens the QEMU backend: finds out what the host offers, brings the store in order, and hands out the runtime. */
import { cpus } from "node:os";
import { join } from "node:path";
import { silentLogger, type Abortable, type Logger } from "@cocoon/core";
import type { ImageStore } from "../image-store.ts";
import type { VmRuntime } from "../runtime.ts";
import { SnapshotStore } from "../store/snapshot-store.ts";
import { VmStore } from "../store/vm-store.ts";
import type { VmNetwork } from "../vm-network.ts";
import { QemuRuntime } from "./backend.ts";
import type { QemuContext, QemuSettings } from "./context.ts";
import { withFaults } from "./fault-border.ts";
import { probeHost } from "./host.ts";
import { openTheWay } from "./ownership.ts";
import { recoverAll } from "./recover.ts";

export interface QemuOptions extends Abortable {
  readonly rootDirectory: string;
  readonly images: ImageStore;
  /** By name; the first is the default. None = VMs without network. */
  readonly networks: ReadonlyMap<string, VmNetwork>;
  readonly log?: Logger;
  /** Name in PATH, or path. */
  readonly qemuBinary?: string;
  /** PATH to look for programs in. */
  readonly path: string;
  readonly accelerator?: "auto" | "kvm" | "tcg";
  readonly firmware?: Partial<QemuSettings["firmware"]>;
  readonly cgroupParent?: string;
  readonly runAs?: QemuSettings["runAs"];
  readonly defaults?: Partial<QemuSettings["defaults"]>;
  readonly minimum?: Partial<QemuSettings["minimum"]>;
  readonly vsock?: boolean;
  readonly readPages?: boolean;
  /** Put in order what dead processes left. Default true; a command that only looks need not wait for it. */
  readonly recover?: boolean;
}

const mebibyte = 1024 * 1024;

const defaultFirmware: QemuSettings["firmware"] = {
  bios: "/usr/share/seabios/bios-256k.bin",
  uefiCode: "/usr/share/OVMF/OVMF_CODE_4M.fd",
  uefiVariables: "/usr/share/OVMF/OVMF_VARS_4M.fd",
};

/** `unavailable` when there is no usable QEMU. */
export async function openQemuRuntime(options: QemuOptions): Promise<VmRuntime> {
  const context = await openContext(options);
  if (options.recover ?? true) await recoverAll(context, options);
  return withFaults(new QemuRuntime(context));
}

async function openContext(options: QemuOptions): Promise<QemuContext> {
  const log = options.log ?? silentLogger;
  const store = await VmStore.open(options.rootDirectory);
  const host = await probeHost({
    binary: options.qemuBinary ?? "qemu-system-x86_64",
    accelerator: options.accelerator ?? "auto",
    path: options.path,
    cacheFile: join(store.layout.shared, "host.json"),
    signal: options.signal,
  });
  const settings = settingsOf(options);
  await openTheWay({ settings, store });
  return {
    settings,
    store,
    snapshots: new SnapshotStore(store.layout, (path, why) =>
      log.warn({ path, error: why }, "snapshot left out"),
    ),
    host,
    images: options.images,
    networks: options.networks,
    log,
    now: () => new Date(),
  };
}

function settingsOf(options: QemuOptions): QemuSettings {
  return {
    rootDirectory: options.rootDirectory,
    firmware: { ...defaultFirmware, ...options.firmware },
    cgroupParent: options.cgroupParent ?? "",
    ...(options.runAs ? { runAs: options.runAs } : {}),
    defaults: {
      cpus: 1,
      memoryBytes: 1024 * mebibyte,
      storageBytes: 10 * 1024 * mebibyte,
      ...options.defaults,
    },
    minimum: { memoryBytes: 64 * mebibyte, storageBytes: 64 * mebibyte, ...options.minimum },
    hostCpus: cpus().length,
    vsock: options.vsock ?? false,
    readPages: options.readPages ?? true,
  };
}
