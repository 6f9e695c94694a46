/** `VmRuntime` over an external `cocoon` command: the Go engine of either vintage, or our own. */
import { dialAddress } from "../host/index.ts";
import { readProcessStats } from "./process-stats.ts";
import { dirname } from "node:path";
import type { Duplex } from "node:stream";
import { Fault, isFault, sleep, withDeadline, type Abortable, type Logger, pathExists } from "@cocoon/core";
import { Consoles } from "../consoles.ts";
import type { GcReport, GuestProcess, RuntimeDescription, VmEvent, VmImages, VmRuntime } from "../runtime.ts";
import type {
  CloneOptions,
  CloneSpec,
  ExecRequest,
  ForkSpec,
  RemoveVmOptions,
  RunSpec,
  StopVmOptions,
} from "../requests.ts";
import { assertPermitted } from "../state.ts";
import { assertVmName, newId } from "../ids.ts";
import type { Vm, VmAddress, VmStats } from "../vm.ts";
import { readHypervisor } from "../wire/snapshot-json.ts";
import { vmJsonSchema, readVmJson } from "../wire/vm-json.ts";
import { startProgram } from "./cli-process.ts";
import { cliImages, CliSnapshots, parseJson, readList } from "./cli-snapshots.ts";
import { watchCocoon } from "./cli-watch.ts";
import { cloneArguments, logArguments, runArguments } from "./argv.ts";
import { run, type CocoonCommand } from "./command.ts";
import type { Vintage } from "./vintage.ts";

export interface CliRuntimeParts {
  readonly command: CocoonCommand;
  readonly vintage: Vintage;
  readonly log: Logger;
  readonly rootDirectory: string;
  /** Looks an address up by MAC, where the engine does not learn it. */
  readonly findLease: (mac: string) => Promise<string | undefined>;
}

const mebibyte = 1024 * 1024;
const readyEveryMs = 500;
const agentTimeoutMs = 5_000;

const cloneSizes = [
  ["--cpu", "cpus"],
  ["--memory", "memoryBytes"],
  ["--storage", "storageBytes"],
] as const;

export class CliRuntime implements VmRuntime {
  readonly snapshots: CliSnapshots;
  readonly images: VmImages;
  readonly #parts: CliRuntimeParts;
  readonly #consoles = new Consoles();
  readonly #stop = new AbortController();
  /** Id and epoch of VMs whose agent answered. */
  readonly #withAgent = new Set<string>();

  constructor(parts: CliRuntimeParts) {
    this.#parts = parts;
    this.snapshots = new CliSnapshots(parts.command, parts.vintage);
    this.images = cliImages(parts.command);
  }

  describe(_options: Abortable): Promise<RuntimeDescription> {
    const { vintage, rootDirectory } = this.#parts;
    const { verbs, clone } = vintage;
    const isNode = vintage.name === "node";
    return Promise.resolve({
      engine: isNode ? "cocoon-node" : "cocoon",
      hypervisor: isNode ? "qemu" : "cloud-hypervisor",
      version: vintage.version,
      networks: [],
      minimumMemoryBytes: 512 * mebibyte,
      minimumStorageBytes: 10 * 1024 * mebibyte,
      can: {
        pause: verbs.has("pause") && verbs.has("resume"),
        reset: verbs.has("reset"),
        exec: verbs.has("exec"),
        tty: false,
        display: false,
        forward: false,
        restoreStopped: vintage.name !== "base",
        saveFrozen: false,
        // The built-in engine links the files of a snapshot; the Go command reads them while the clone runs.
        cloneStandsAlone: isNode,
        cloneSizes: isNode
          ? ["storageBytes"]
          : cloneSizes.filter(([flag]) => clone.includes(flag)).map(([, size]) => size),
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

  /** The command has no stop between making a VM and running it: the last check comes before both. */
  async clone(spec: CloneSpec, options: CloneOptions): Promise<Vm> {
    assertVmName(spec.name);
    const source = await this.snapshots.describe(spec.snapshot, options);
    await options.beforeRun?.(options);
    const made = await this.#vm(cloneArguments(spec, source, this.#parts.vintage), options);
    return made.pid === undefined ? this.inspect(made.id, options) : made;
  }

  /** By a snapshot that lives as long as the fork takes: the clone copies its memory, because the source is removed. */
  async fork(spec: ForkSpec, options: Abortable): Promise<Vm> {
    const source = await this.inspect(spec.source, options);
    assertPermitted("fork", source);
    const name = `fork-${newId().toLowerCase()}`;
    const { snapshot } = await this.snapshots.save(source.id, { name, signal: options.signal });
    try {
      const vm = await this.clone({ ...spec, snapshot: snapshot.id, restoreMode: "copy" }, options);
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
    return this.#verb(["vm", "pause", ref], ref, options);
  }

  resume(ref: string, options: Abortable): Promise<Vm> {
    return this.#verb(["vm", "resume", ref], ref, options);
  }

  reset(ref: string, options: Abortable): Promise<Vm> {
    return this.#verb(["vm", "reset", ref], ref, options);
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
      listed.map((json) => this.#believe(readVmJson(json, readHypervisor(json.hypervisor)), options)),
    );
  }

  async #believe(vm: Vm, options: Abortable): Promise<Vm> {
    if (vm.state !== "running" || (vm.pid !== undefined && (await pathExists(`/proc/${vm.pid}`)))) return vm;
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

  /** A program that runs proves the agent. */
  async waitReady(ref: string, options: Abortable): Promise<Vm> {
    for (;;) {
      const vm = await this.inspect(ref, options);
      assertPermitted("exec", vm);
      if (!this.#parts.vintage.verbs.has("exec")) throw new Fault("notSupported", "this cocoon has no agent");
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
    const ip = nic?.address?.ip ?? (nic ? await this.#parts.findLease(nic.mac) : undefined);
    if (ip === undefined) return undefined;
    return { ip, routable: nic?.backend !== "user", forwards: nic?.forwards ?? [] };
  }

  async dial(ref: string, port: number, options: Abortable): Promise<Duplex> {
    return dialAddress({ name: ref, address: await this.address(ref, options), port }, options);
  }

  /** From the hypervisor's process and the VM's disks: the command has no such verb. */
  async stats(ref: string, options: Abortable): Promise<VmStats> {
    return readProcessStats(await this.inspect(ref, options));
  }

  /** `notSupported` without an agent: the command does not say whether its failure or the program's ended it, so it is asked before. */
  async exec(ref: string, request: ExecRequest, options: Abortable): Promise<GuestProcess> {
    if (request.argv.length === 0) throw new Fault("invalid", "exec: argv is empty");
    const { command, vintage } = this.#parts;
    if (!vintage.verbs.has("exec"))
      throw new Fault("notSupported", "this cocoon cannot run programs in guests");
    const vm = await this.inspect(ref, options);
    assertPermitted("exec", vm);
    const identity = `${vm.id} ${vm.epoch}`;
    if (vm.guest !== "ready" && !this.#withAgent.has(identity)) {
      const limited = { signal: withDeadline(options.signal, agentTimeoutMs) };
      if (!(await this.#answers(vm.id, limited)))
        throw new Fault("notSupported", `the guest of VM ${vm.name} has no agent that answers`);
      this.#withAgent.add(identity);
    }
    return startProgram(command, vm.id, request);
  }

  /** The engine's own console command wants a terminal; its socket does not. */
  async openConsole(ref: string, options: Abortable): Promise<Duplex> {
    const vm = await this.inspect(ref, options);
    assertPermitted("openConsole", vm);
    if (vm.socketPath === undefined) throw new Fault("notSupported", `VM ${vm.name} has no console socket`);
    return this.#consoles.open(dirname(vm.socketPath), options);
  }

  async readConsole(ref: string, options: Abortable & { readonly tailBytes?: number }): Promise<Buffer> {
    const { command, vintage } = this.#parts;
    const args = logArguments(ref, vintage);
    if (!args) throw new Fault("notSupported", "this cocoon keeps no console history");
    const text = Buffer.from(await run(command, args, options), "utf8");
    return text.subarray(Math.max(0, text.length - (options.tailBytes ?? Infinity)));
  }

  openDisplay(_ref: string, _options: Abortable): Promise<Duplex> {
    return Promise.reject(new Fault("notSupported", "the cocoon command has no display"));
  }

  async gc(options: Abortable): Promise<GcReport> {
    await run(this.#parts.command, ["gc"], options);
    return { images: { removed: [], freedBytes: 0 }, removedSnapshots: [], removedDirectories: [] };
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    this.#consoles[Symbol.dispose]();
    return Promise.resolve();
  }

  async #vm(args: readonly string[], options: Abortable): Promise<Vm> {
    const json = vmJsonSchema.parse(parseJson(await run(this.#parts.command, args, options)));
    if (json.id === "") throw new Fault("internal", "cocoon printed a VM without an id");
    return readVmJson(json, readHypervisor(json.hypervisor));
  }

  async #verb(args: readonly [string, string, ...string[]], ref: string, options: Abortable): Promise<Vm> {
    const [, verb] = args;
    if (newVerbs.has(verb) && !this.#parts.vintage.verbs.has(verb))
      throw new Fault("notSupported", `this cocoon cannot ${verb} VMs`);
    await run(this.#parts.command, args, options);
    return this.inspect(ref, options);
  }
}

/** Verbs that not every vintage has. */
const newVerbs: ReadonlySet<string> = new Set(["pause", "resume", "reset"]);
