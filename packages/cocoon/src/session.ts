/** What one invocation of the command has in hand: where it writes, its settings, and the runtime once it is needed. */
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import type { Readable, Writable } from "node:stream";
import { createLogger, getErrorMessage, tryReadFile, writeFileAtomically, type Logger } from "@cocoon/core";
import { openImageLibrary } from "@cocoon/images";
import {
  chooseVmUsers,
  listCniNetworks,
  openBridgeNetwork,
  openCniNetwork,
  openQemuRuntime,
  openUserNetwork,
} from "@cocoon/qemu";
import type { VmNetwork, VmRuntime } from "@cocoon/vm";
import type { CommandSettings } from "./settings.ts";

export interface CommandIo {
  readonly stdout: Writable & { readonly isTTY?: boolean };
  readonly stderr: Writable;
  readonly stdin: Readable & { readonly isTTY?: boolean; setRawMode?: (raw: boolean) => unknown };
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly signal: AbortSignal;
}

export class CommandSession implements AsyncDisposable {
  readonly io: CommandIo;
  readonly settings: CommandSettings;
  readonly log: Logger;
  /** A session is what waits and can be stopped: it is passed on as options. */
  readonly signal: AbortSignal;
  #runtime: VmRuntime | undefined;

  constructor(io: CommandIo, settings: CommandSettings) {
    this.io = io;
    this.settings = settings;
    this.signal = io.signal;
    this.log = createLogger({ name: "cocoon", level: settings.logLevel, destination: io.stderr });
  }

  /** Opened at first use; a bridge that was named once is there from then on. */
  async runtime(options: { readonly bridge?: string } = {}): Promise<VmRuntime> {
    this.#runtime ??= await this.#open(options.bridge);
    return this.#runtime;
  }

  print(text: string): void {
    this.io.stdout.write(text);
  }

  printJson(value: unknown): void {
    this.print(`${JSON.stringify(value, null, 2)}\n`);
  }

  say(text: string): void {
    this.io.stderr.write(`${text}\n`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#runtime?.[Symbol.asyncDispose]();
  }

  async #open(bridge: string | undefined): Promise<VmRuntime> {
    const { rootDir } = this.settings;
    await mkdir(rootDir, { recursive: true });
    const runAs = await chooseVmUsers(rootDir, this.log);
    return openQemuRuntime({
      rootDirectory: rootDir,
      images: openImageLibrary({ directory: join(rootDir, "images") }),
      networks: await this.#networks(bridge, runAs ? 1024 : undefined),
      allowHostLoopback: this.settings.allowHostLoopback,
      ...(runAs ? { runAs } : {}),
      path: this.settings.path,
      qemuBinary: this.settings.qemuBinary,
      accelerator: this.settings.accelerator,
      cgroupParent: this.settings.cgroupParent,
      defaults: { cpus: 2 },
      log: this.log,
      signal: this.signal,
    });
  }

  async #networks(
    bridge: string | undefined,
    firstFreePort: number | undefined,
  ): Promise<ReadonlyMap<string, VmNetwork>> {
    const directory = join(this.settings.rootDir, "net");
    const leasesPath = join(directory, "leases.json");
    const user = await openUserNetwork({
      directory: join(directory, "user"),
      leasesPath,
      ...(firstFreePort === undefined ? {} : { firstFreePort }),
    });
    const networks = new Map<string, VmNetwork>([["user", user]]);
    const device = await rememberBridge(join(directory, "bridge-device"), bridge);
    if (device !== undefined) {
      const options = {
        directory: join(directory, "bridge"),
        bridge: device,
        dns: this.settings.dns,
        leasesPath,
      };
      networks.set("bridge", await openBridgeNetwork(options, { signal: this.signal }));
    }
    for (const [name, network] of await this.#cniNetworks(directory)) networks.set(name, network);
    return networks;
  }

  /** By `cni` and by the names of the host's lists; without root, or without lists, none. */
  async #cniNetworks(directory: string): Promise<ReadonlyMap<string, VmNetwork>> {
    const { cniConfDir: confDirectory, cniBinDirs: binDirectories, dns } = this.settings;
    const networks = new Map<string, VmNetwork>();
    if (process.getuid?.() !== 0) return networks;
    const names = await listCniNetworks(confDirectory);
    for (const list of names.length > 0 ? [undefined, ...names] : []) {
      const options = {
        directory: join(directory, "cni"),
        confDirectory,
        binDirectories,
        dns,
        log: this.log,
      };
      const opened = await openCniNetwork(list === undefined ? options : { ...options, list }).catch(
        (error: unknown) =>
          this.log.debug({ network: list, error: getErrorMessage(error) }, "CNI network not usable"),
      );
      if (opened) networks.set(list ?? "cni", opened);
    }
    return networks;
  }
}

async function rememberBridge(file: string, named: string | undefined): Promise<string | undefined> {
  if (named !== undefined) {
    await writeFileAtomically(file, named);
    return named;
  }
  return (await tryReadFile(file))?.trim();
}
