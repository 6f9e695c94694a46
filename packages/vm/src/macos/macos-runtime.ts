/**
 * macOS guests by the program `cocoon-macos`. Its VMs boot from an image and stay on their node: they have no memory snapshot,
 * so they are not hibernated, cloned or forked. Whether a VM runs is read from its process.
 */
import type { Duplex } from "node:stream";
import { Fault, isFault, sleep, type Abortable } from "@cocoon/core";
import * as z from "zod";
import { eventsBetween } from "../events/vm-events.ts";
import { parseJson } from "../external/cli-snapshots.ts";
import { readProcessStats } from "../external/process-stats.ts";
import { dialAddress } from "../host/index.ts";
import { assertVmName, vmNotFound } from "../ids.ts";
import type { RunSpec, StopVmOptions } from "../requests.ts";
import type { VmEvent } from "../runtime.ts";
import type { Vm, VmAddress, VmStats } from "../vm.ts";
import { macosRunArguments, runMacos, type MacosCommand } from "./macos-command.ts";
import { macosRecordSchema, readMacosVm, type MacosRecord } from "./macos-record.ts";

export interface MacosRuntimeParts {
  readonly command: MacosCommand;
  /** Guests get their address by DHCP; the program does not learn it. */
  readonly findLease: (mac: string) => Promise<string | undefined>;
  /** Default 5 s, as often as the Go command looks for VMs that died. */
  readonly listEveryMs?: number;
}

const defaultListEveryMs = 5_000;

/** Refs are VM names. */
export class MacosRuntime {
  readonly #parts: MacosRuntimeParts;

  constructor(parts: MacosRuntimeParts) {
    this.#parts = parts;
  }

  /** Pulls the image where it is not local. A run that fails leaves nothing behind: the program removes it itself. */
  async run(spec: RunSpec, options: Abortable): Promise<Vm> {
    assertVmName(spec.name);
    const { command } = this.#parts;
    if (!(await this.#hasImage(spec.image, options)))
      await runMacos(command, ["image", "pull", spec.image], options);
    await runMacos(command, macosRunArguments(spec, command.runFlags), options);
    return this.inspect(spec.name, options);
  }

  async #hasImage(image: string, options: Abortable): Promise<boolean> {
    try {
      await runMacos(this.#parts.command, ["image", "inspect", image], options);
      return true;
    } catch (error) {
      if (options.signal.aborted || !isFault(error)) throw error;
      return false; // whatever the reason, the pull that follows says it
    }
  }

  async list(options: Abortable): Promise<readonly Vm[]> {
    return (await this.#records(options)).map(readMacosVm);
  }

  /** From the list: a record that cannot be read and one that does not exist look alike to `vm inspect`. */
  async inspect(name: string, options: Abortable): Promise<Vm> {
    const record = (await this.#records(options)).find((each) => each.name === name);
    if (!record) throw vmNotFound(name);
    return readMacosVm(record);
  }

  async #records(options: Abortable): Promise<readonly MacosRecord[]> {
    const text = await runMacos(this.#parts.command, ["vm", "list", "-o", "json"], options);
    const parsed = z.array(macosRecordSchema).nullable().safeParse(parseJson(text));
    if (!parsed.success)
      throw new Fault("unavailable", `cocoon-macos vm list printed no list of VMs: ${parsed.error.message}`);
    return parsed.data ?? [];
  }

  async start(name: string, options: Abortable): Promise<Vm> {
    const vm = await this.inspect(name, options);
    if (vm.state === "running") return vm;
    await runMacos(this.#parts.command, ["vm", "start", name], options);
    return this.inspect(name, options);
  }

  async stop(name: string, options: StopVmOptions): Promise<Vm> {
    const vm = await this.inspect(name, options);
    if (vm.state !== "running") return vm;
    const force = options.force || options.timeoutMs === 0 ? ["--force"] : [];
    await runMacos(this.#parts.command, ["vm", "stop", ...force, name], options);
    return this.inspect(name, options);
  }

  /** Ends the guest as well. */
  async remove(name: string, options: Abortable): Promise<void> {
    await this.inspect(name, options); // `notFound` is for those that want it gone
    await runMacos(this.#parts.command, ["vm", "rm", name], options);
  }

  async address(name: string, options: Abortable): Promise<VmAddress | undefined> {
    const [nic] = (await this.inspect(name, options)).nics;
    const ip = nic && (await this.#parts.findLease(nic.mac));
    return ip === undefined ? undefined : { ip, routable: true, forwards: [] };
  }

  async dial(name: string, port: number, options: Abortable): Promise<Duplex> {
    return dialAddress({ name, address: await this.address(name, options), port }, options);
  }

  async stats(name: string, options: Abortable): Promise<VmStats> {
    return readProcessStats(await this.inspect(name, options));
  }

  /** Changes as they are seen from one list to the next; a list that fails is no change. */
  async *watch({ signal }: Abortable): AsyncGenerator<VmEvent, void, void> {
    let known = new Map<string, Vm>();
    while (!signal.aborted) {
      const listed = await this.list({ signal }).catch(() => undefined);
      if (listed) {
        const now = new Map(listed.map((vm) => [vm.id, vm]));
        for (const id of new Set([...known.keys(), ...now.keys()]))
          yield* eventsBetween(known.get(id), now.get(id));
        known = now;
      }
      await sleep(this.#parts.listEveryMs ?? defaultListEveryMs, { signal });
    }
  }
}
