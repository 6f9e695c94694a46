/** Opens the QEMU backend: finds out what the host offers, brings the store in order, and hands out the runtime. */
import { cpus } from "node:os";
import { join } from "node:path";
import { silentLogger, type Abortable, type Logger } from "@cocoon/core";
import type { ImageStore, VmNetwork, VmRuntime } from "@cocoon/vm";
import { SnapshotStore } from "./store/snapshot-store.ts";
import { VmStore } from "./store/vm-store.ts";
import { QemuRuntime } from "./backend.ts";
import type { LazySettings, QemuContext, QemuSettings } from "./context.ts";
import { withFaults } from "./fault-border.ts";
import { probeHost } from "./process/host.ts";
import { ensureTraversable } from "./process/jail.ts";
import { recoverAll } from "./machine/recover.ts";
import { pageServerProgram } from "./lazy/page-server-process.ts";
import { reviveAll } from "./lazy/load-supervisor.ts";

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
  readonly cgroupParent?: string;
  /** Users that machines run as (`chooseVmUsers`); absent: as we do. */
  readonly runAs?: QemuSettings["runAs"];
  readonly defaults?: Partial<QemuSettings["defaults"]>;
  readonly readPages?: boolean;
  readonly bootSilenceMs?: number;
  /** Let guests on the user network connect to this host's own addresses. Default false. */
  readonly allowHostLoopback?: boolean;
  /** Put in order what dead processes left. Default true; a command that only looks need not wait for it. */
  readonly recover?: boolean;
  /** Lets machines start before their files are here, and looks after those that did. */
  readonly lazy?: LazySettings;
}

const mebibyte = 1024 * 1024;

/** `unavailable` when there is no usable QEMU. */
export async function openQemuRuntime(options: QemuOptions): Promise<VmRuntime> {
  const context = await openContext(options);
  await reviveAll(context); // before any QEMU is asked: one without its page server may not answer
  if (options.recover ?? true) await recoverAll(context, options);
  const runtime = new QemuRuntime(context);
  await runtime.adopt();
  return withFaults(runtime);
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
  const settings = readSettings(options);
  if (settings.runAs) await ensureTraversable(settings.runAs, store);
  return {
    settings,
    store,
    snapshots: new SnapshotStore(store, (path, why) => log.warn({ path, error: why }, "snapshot left out")),
    host,
    images: options.images,
    networks: options.networks,
    log,
    now: () => new Date(),
  };
}

function readSettings(options: QemuOptions): QemuSettings {
  return {
    rootDirectory: options.rootDirectory,
    cgroupParent: options.cgroupParent ?? "",
    ...(options.runAs ? { runAs: options.runAs } : {}),
    defaults: {
      cpus: 1,
      memoryBytes: 1024 * mebibyte,
      storageBytes: 10 * 1024 * mebibyte,
      ...options.defaults,
    },
    hostCpus: cpus().length,
    ...(options.lazy ? { lazy: { ...options.lazy, program: pageServerProgram, path: options.path } } : {}),
    readPages: options.readPages ?? true,
    allowHostLoopback: options.allowHostLoopback ?? false,
    bootSilenceMs: options.bootSilenceMs ?? 120_000,
  };
}
