/** `VmRuntime` over an external `cocoon` command: the Go engine of either vintage, or our own. */
import { readFile, stat } from "node:fs/promises";
import { connect } from "node:net";
import { dirname } from "node:path";
import type { Duplex } from "node:stream";
import { Fault, isFault, sleep, toFault, type Abortable, type Logger } from "@cocoon/core";
import { Consoles } from "../qemu/console.ts";
import type {
  CloneSpec,
  ExecRequest,
  ForkSpec,
  GcReport,
  GuestProcess,
  RemoveVmOptions,
  RunSpec,
  RuntimeDescription,
  StopVmOptions,
  VmEvent,
  VmImages,
  VmRuntime,
} from "../runtime.ts";
import { assertPermitted } from "../state.ts";
import { assertVmName, newId } from "../store/ids.ts";
import type { Vm, VmAddress, VmStats } from "../vm.ts";
import { hypervisorOf } from "../wire/snapshot-json.ts";
import { vmJsonSchema, vmOfJson } from "../wire/vm-json.ts";
import { startProgram } from "./cli-process.ts";
import { cliImages, CliSnapshots, parseJson, readList } from "./cli-snapshots.ts";
import { watchCocoon } from "./cli-watch.ts";
import { cloneArguments, runArguments } from "./clone-flags.ts";
import { run, type CocoonCommand } from "./command.ts";
import type { Vintage } from "./vintage.ts";

export interface CliRuntimeParts {
  readonly command: CocoonCommand;
  readonly vintage: Vintage;
  readonly log: Logger;
  readonly rootDirectory: string;
  /** Looks an address up by MAC, where the engine does not learn it. */
  readonly leaseOf: (mac: string) => Promise<string | undefined>;
}

const mebibyte = 1024 * 1024;
const readyEveryMs = 500;

export class CliRuntime implements VmRuntime {
  readonly snapshots: CliSnapshots;
  readonly images: VmImages;
  readonly #parts: CliRuntimeParts;
  readonly #consoles = new Consoles();
  readonly #stop = new AbortController();

  constructor(parts: CliRuntimeParts) {
    this.#parts = parts;
    this.snapshots = new CliSnapshots(parts.command);
    this.images = cliImages(parts.command);
  }

  describe(_options: Abortable): Promise<RuntimeDescription> {
    const { vintage, rootDirectory } = this.#parts;
    return Promise.resolve({
      hypervisor: "cloud-hypervisor",
      version: vintage.version,
      networks: [],
      minimumMemoryBytes: 512 * mebibyte,
      minimumStorageBytes: 10 * 1024 * mebibyte,
      can: {
        pause: vintage.pause,
        reset: vintage.reset,
        exec: vintage.exec,
        tty: false,
        display: false,
        forward: false,
        restoreStopped: vintage.cloneMode === "restore-mode",
        saveFrozen: false,
      },
      rootDirectory,
    });
  }

  async run(spec: RunSpec, options: Abortable): Promise<Vm> {
    assertVmName(spec.name);
    const made = await this.#vm(runArguments(spec, this.#parts.vintage), options);
    // The command may print the record from before the start.
    return spec.start !== false && (made.state !== "running" || made.pid === undefined)
      ? this.inspect(made.id, options)
      : made;
  }

  async clone(spec: CloneSpec, options: Abortable): Promise<Vm> {
    assertVmName(spec.name);
    const made = await this.#vm(cloneArguments(spec, this.#parts.vintage), options);
    return made.pid === undefined ? this.inspect(made.id, options) : made;
  }

  /** A snapshot that lives as long as the fork takes. */
  async fork(spec: ForkSpec, options: Abortable): Promise<Vm> {
    const source = await this.inspect(spec.source, options);
    assertPermitted("fork", source);
    const name = `fork-${newId().toLowerCase()}`;
    const { snapshot } = await this.snapshots.save(source.id, { name, signal: options.signal });
    try {
      const vm = await this.clone({ ...spec, snapshot: snapshot.id }, options);
      return { ...vm, origin: { kind: "fork", sourceVmId: source.id, snapshotId: snapshot.id } };
    } finally {
      await this.snapshots.remove(snapshot.id, { signal: new AbortController().signal });
    }
  }

  start(ref: string, options: Abortable): Promise<Vm> {
    return this.#verb(["vm", "start", ref], ref, options);
  }

  stop(ref: string, options: StopVmOptions): Promise<Vm> {
    const force = options.force || options.timeoutMs === 0 ? ["--force"] : [];
    const timeout = options.timeoutMs ? ["--timeout", String(Math.ceil(options.timeoutMs / 1000))] : [];
    return this.#verb(["vm", "stop", ...force, ...timeout, ref], ref, options);
  }

  pause(ref: string, options: Abortable): Promise<Vm> {
    return this.#verb(["vm", "pause", ref], ref, options, "pause");
  }

  resume(ref: string, options: Abortable): Promise<Vm> {
    return this.#verb(["vm", "resume", ref], ref, options, "pause");
  }

  reset(ref: string, options: Abortable): Promise<Vm> {
    return this.#verb(["vm", "reset", ref], ref, options, "reset");
  }

  async remove(ref: string, options: RemoveVmOptions): Promise<void> {
    await run(this.#parts.command, ["vm", "rm", ...(options.force ? ["--force"] : []), ref], options);
  }

  restore(ref: string, snapshotRef: string, options: Abortable): Promise<Vm> {
    return this.#vm(["vm", "restore", "--output", "json", ref, snapshotRef], options);
  }

  async list(options: Abortable): Promise<readonly Vm[]> {
    const text = await run(this.#parts.command, ["vm", "list", "-o", "json"], options);
    const listed = readList(text, "No VMs found", vmJsonSchema).filter((json) => json.id !== "");
    // The list may call a VM running whose process is gone; its own record does not.
    return Promise.all(
      listed.map((json) => this.#believe(vmOfJson(json, hypervisorOf(json.hypervisor)), options)),
    );
  }

  async #believe(vm: Vm, options: Abortable): Promise<Vm> {
    if (vm.state !== "running" || (vm.pid !== undefined && (await isThere(`/proc/${vm.pid}`)))) return vm;
    return this.inspect(vm.id, options).catch((error: unknown) => {
      if (isFault(error, "notFound")) return { ...vm, state: "stopped" as const };
      throw error;
    });
  }

  inspect(ref: string, options: Abortable): Promise<Vm> {
    return this.#vm(["vm", "inspect", ref], options);
  }

  watch({ signal }: Abortable): AsyncIterable<VmEvent> {
    const { command, log } = this.#parts;
    return watchCocoon(
      { command, log, list: (until) => this.list({ signal: until }), address: (vm) => this.#addressOf(vm) },
      AbortSignal.any([signal, this.#stop.signal]),
    );
  }

  /** Without an agent nobody can tell; with one, a program that runs proves it. */
  async waitReady(ref: string, options: Abortable): Promise<Vm> {
    for (;;) {
      const vm = await this.inspect(ref, options);
      assertPermitted("exec", vm);
      if (!this.#parts.vintage.exec) throw new Fault("notSupported", "this cocoon has no agent");
      if (vm.guest === "ready" || (await this.#answers(vm.id, options))) return this.inspect(vm.id, options);
      if (!(await sleep(readyEveryMs, options)))
        throw new Fault("timeout", `the guest of VM ${vm.name} was not ready in time`);
    }
  }

  async #answers(id: string, options: Abortable): Promise<boolean> {
    await using program = startProgram(this.#parts.command, id, { argv: ["true"] });
    program.stdout.resume();
    program.stderr.resume();
    const stop = () => void program[Symbol.asyncDispose]();
    options.signal.addEventListener("abort", stop, { once: true });
    const exit = await program.exited.catch(() => undefined);
    options.signal.removeEventListener("abort", stop);
    return exit?.code === 0;
  }

  async address(ref: string, options: Abortable): Promise<VmAddress | undefined> {
    return this.#addressOf(await this.inspect(ref, options));
  }

  async #addressOf(vm: Vm): Promise<VmAddress | undefined> {
    const [nic] = vm.nics;
    const ip = nic?.address?.ip ?? (nic ? await this.#parts.leaseOf(nic.mac) : undefined);
    return ip === undefined ? undefined : { ip, routable: true, forwards: [] };
  }

  async dial(ref: string, port: number, options: Abortable): Promise<Duplex> {
    const address = await this.address(ref, options);
    if (!address) throw new Fault("unavailable", `VM ${ref} has no address yet`);
    return new Promise((resolve, reject) => {
      const socket = connect({ host: address.ip, port, allowHalfOpen: true });
      socket.once("connect", () => resolve(socket));
      socket.once("error", (error) => reject(toFault(error, `cannot connect to port ${port} of the guest`)));
      options.signal.addEventListener("abort", () => socket.destroy(new Error("aborted")), { once: true });
    });
  }

  /** From the hypervisor's process and the VM's disks: the command has no such verb. */
  async stats(ref: string, options: Abortable): Promise<VmStats> {
    const vm = await this.inspect(ref, options);
    if (vm.pid === undefined) throw new Fault("conflict", `VM not running: ${vm.name}`);
    const [text, status] = await Promise.all([readProc(vm.pid, "stat"), readProc(vm.pid, "status")]);
    const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
    const own = vm.disks.filter((disk) => !disk.readOnly);
    const sizes = await Promise.all(own.map((disk) => stat(disk.path).catch(() => ({ size: 0, blocks: 0 }))));
    return {
      at: new Date().toISOString(),
      cpu: { usageNanos: (Number(fields[11]) + Number(fields[12])) * 1e7 },
      memory: { residentBytes: Number(/^VmRSS:\s+(\d+)/m.exec(status)?.[1] ?? 0) * 1024 },
      disk: {
        allocatedBytes: sizes.reduce((sum, { blocks }) => sum + blocks * 512, 0),
        apparentBytes: sizes.reduce((sum, { size }) => sum + size, 0),
      },
    };
  }

  async exec(ref: string, request: ExecRequest, options: Abortable): Promise<GuestProcess> {
    if (request.argv.length === 0) throw new Fault("invalid", "exec: argv is empty");
    if (!this.#parts.vintage.exec)
      throw new Fault("notSupported", "this cocoon cannot run programs in guests");
    const vm = await this.inspect(ref, options);
    assertPermitted("exec", vm);
    return startProgram(this.#parts.command, vm.id, request);
  }

  /** The engine's own console command wants a terminal; its socket does not. */
  async openConsole(ref: string, options: Abortable): Promise<Duplex> {
    const vm = await this.inspect(ref, options);
    assertPermitted("openConsole", vm);
    if (vm.socketPath === undefined) throw new Fault("notSupported", `VM ${vm.name} has no console socket`);
    return this.#consoles.open(dirname(vm.socketPath), options);
  }

  async readConsole(ref: string, options: Abortable & { readonly tailBytes?: number }): Promise<Buffer> {
    if (!this.#parts.vintage.consoleLogs)
      throw new Fault("notSupported", "this cocoon keeps no console history");
    const text = Buffer.from(
      await run(this.#parts.command, ["vm", "logs", "--console", ref], options),
      "utf8",
    );
    return options.tailBytes === undefined
      ? text
      : text.subarray(Math.max(0, text.length - options.tailBytes));
  }

  openDisplay(_ref: string, _options: Abortable): Promise<Duplex> {
    return Promise.reject(new Fault("notSupported", "the cocoon command has no display"));
  }

  async gc(options: Abortable): Promise<GcReport> {
    await run(this.#parts.command, ["gc"], options);
    return { images: { removed: [], freedBytes: 0 }, removedDirectories: [] };
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    this.#consoles[Symbol.dispose]();
    return Promise.resolve();
  }

  async #vm(args: readonly string[], options: Abortable): Promise<Vm> {
    const json = vmJsonSchema.parse(parseJson(await run(this.#parts.command, args, options)));
    if (json.id === "") throw new Fault("internal", "cocoon printed a VM without an id");
    return vmOfJson(json, hypervisorOf(json.hypervisor));
  }

  // oxlint-disable-next-line max-params -- a command line, what it is about, and what it takes
  async #verb(
    args: readonly string[],
    ref: string,
    options: Abortable,
    needs?: "pause" | "reset",
  ): Promise<Vm> {
    if (needs && !this.#parts.vintage[needs])
      throw new Fault("notSupported", `this cocoon cannot ${String(args[1])} VMs`);
    await run(this.#parts.command, args, options);
    return this.inspect(ref, options);
  }
}

async function isThere(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  );
}

async function readProc(pid: number, name: string): Promise<string> {
  try {
    return await readFile(`/proc/${pid}/${name}`, "latin1");
  } catch (error) {
    throw new Fault("conflict", "VM not running: its process is gone", { cause: error });
  }
}
