/** The provider that the kubelet library sees: machines, and the ways into their guests. */
import type { Duplex, Readable } from "node:stream";
import { Readable as ReadableStream } from "node:stream";
import { annotation } from "@cocoon/contract";
import { Fault, type Logger } from "@cocoon/core";
import { keyText, type ObjectKey } from "@cocoon/kube";
import type {
  CommandIo,
  ContainerTarget,
  LogOptions,
  Pod,
  PodProvider,
  ProviderOptions,
  ReportPod,
  StatsSummary,
} from "@cocoon/kubelet";
import type { VmRuntime } from "@cocoon/vm";
import { execInGuest } from "../guest/command.ts";
import { ConsoleTimes } from "../guest/console-times.ts";
import { guestLogs } from "../guest/logs.ts";
import type { SshLogin } from "../guest/ssh.ts";
import { drain, feed } from "../guest/streams.ts";
import { windowsExecText, windowsLogsText } from "../guest/windows.ts";
import { readMachine } from "../machine.ts";
import { summarise } from "../stats.ts";
import { findVm } from "./observe.ts";
import type { Machines } from "./provider.ts";
import type { Seat } from "./seat.ts";

export interface CocoonProviderOptions {
  readonly machines: Machines;
  readonly runtime: VmRuntime;
  readonly ssh: SshLogin;
  readonly node: string;
  readonly log: Logger;
}

interface LiveGuest {
  readonly vmId: string;
  readonly ip: string;
  readonly pod: Pod;
  readonly windows: boolean;
}

export class CocoonProvider implements PodProvider {
  readonly #options: CocoonProviderOptions;
  readonly #consoleTimes = new ConsoleTimes();
  readonly #startedAt = new Date().toISOString();

  constructor(options: CocoonProviderOptions) {
    this.#options = options;
  }

  createPod(pod: Pod, options: ProviderOptions): Promise<void> {
    return this.#counted("create", () => this.#options.machines.bring(pod, options));
  }

  updatePod(pod: Pod, options: ProviderOptions): Promise<void> {
    return this.#counted("update", () => this.#options.machines.bring(pod, options));
  }

  deletePod(pod: Pod, options: ProviderOptions): Promise<void> {
    return this.#options.machines.end(pod, options);
  }

  async #counted(op: string, work: () => Promise<void>): Promise<void> {
    const { lifecycle } = this.#options.machines.parts.metrics;
    try {
      await work();
      lifecycle.inc({ op, result: "ok", reason: "" });
    } catch (error) {
      lifecycle.inc({ op, result: "failed", reason: error instanceof Fault ? error.code : "internal" });
      throw error;
    }
  }

  getPod(key: ObjectKey): Promise<Pod | undefined> {
    const seat = this.#options.machines.seatOf(key);
    return Promise.resolve(seat && this.#options.machines.tracked(seat));
  }

  getPods(): Promise<readonly Pod[]> {
    const { machines } = this.#options;
    return Promise.resolve([...machines.seats()].map((seat) => machines.tracked(seat)));
  }

  onPodStatus(report: ReportPod): void {
    this.#options.machines.onPodStatus(report);
  }

  async logs({ pod }: ContainerTarget, options: LogOptions): Promise<Readable> {
    const seat = this.#seat(pod);
    const guest = await this.#tryGuest(seat, options.signal);
    if (!guest) return textStream("vk-cocoon: pod has no live VM\n");
    if (guest.windows) return textStream(windowsLogsText(guest.ip));
    const { runtime, log } = this.#options;
    if (options.follow) whileOpen(seat, options.signal);
    const console = guest.pod.metadata.annotations?.[annotation.logs] === "console";
    return guestLogs({ runtime, vmId: guest.vmId, console, times: this.#consoleTimes, log }, options);
  }

  async exec(
    { pod, container }: ContainerTarget,
    command: readonly string[],
    io: CommandIo,
  ): Promise<number> {
    const guest = await this.#guest(pod, io.signal);
    using _use = usingGuest(this.#seat(pod));
    if (guest.windows) {
      (io.stderr ?? io.stdout)?.write(windowsExecText(guest.ip));
      return 1;
    }
    const { runtime, ssh } = this.#options;
    const spec = guest.pod.spec.containers.find((each) => each.name === container);
    const env = Object.fromEntries((spec?.env ?? []).map(({ name, value }) => [name, value ?? ""]));
    return await execInGuest({ runtime, vmId: guest.vmId, command, env, ssh }, io);
  }

  /** The serial console; leaving it does not end anything in the guest. */
  async attach({ pod }: ContainerTarget, io: CommandIo): Promise<number> {
    const guest = await this.#guest(pod, io.signal);
    using _use = usingGuest(this.#seat(pod));
    const console = await this.#options.runtime.openConsole(guest.vmId, { signal: io.signal });
    const leave = () => console.destroy();
    io.signal.addEventListener("abort", leave, { once: true });
    console.on("error", () => undefined);
    try {
      if (io.stdin) feed(io.stdin, console);
      await drain(console, io.stdout);
      return 0;
    } catch (error) {
      if (io.signal.aborted) return 0;
      throw error;
    } finally {
      io.signal.removeEventListener("abort", leave);
      console.destroy();
    }
  }

  async portForward(pod: ObjectKey, port: number, { signal }: ProviderOptions): Promise<Duplex> {
    const guest = await this.#guest(pod, signal);
    const use = usingGuest(this.#seat(pod));
    try {
      const connection = await this.#options.runtime.dial(guest.vmId, port, { signal });
      connection.once("close", () => use[Symbol.dispose]());
      return connection;
    } catch (error) {
      use[Symbol.dispose]();
      throw error;
    }
  }

  stats({ signal }: ProviderOptions): Promise<StatsSummary> {
    const { runtime, node, machines } = this.#options;
    return summarise({ runtime, node, seats: [...machines.seats()], startedAt: this.#startedAt, signal });
  }

  #seat(key: ObjectKey): Seat {
    const seat = this.#options.machines.seatOf(key);
    if (!seat) throw new Fault("notFound", `pod ${keyText(key)} is not on this node`);
    return seat;
  }

  async #guest(key: ObjectKey, signal: AbortSignal): Promise<LiveGuest> {
    const guest = await this.#tryGuest(this.#seat(key), signal);
    if (!guest) throw new Fault("conflict", `pod ${keyText(key)} has no live VM`);
    return guest;
  }

  async #tryGuest(seat: Seat, signal: AbortSignal): Promise<LiveGuest | undefined> {
    const { pod } = seat.writer;
    const machine = readMachine(pod);
    if (!machine.vm.managed) return undefined;
    const vm = await findVm(this.#options.runtime, machine.vm.vmName, { signal });
    if (!vm || (vm.state !== "running" && vm.state !== "paused")) return undefined;
    const ip = seat.showing?.kind === "live" ? seat.showing.ip : machine.ip;
    return { vmId: vm.id, ip, pod, windows: machine.vm.os === "windows" };
  }
}

/** A guest that somebody uses is not idle. */
function usingGuest({ use }: Seat): Disposable {
  use.open += 1;
  let done = false;
  return {
    [Symbol.dispose]: () => {
      if (done) return;
      done = true;
      use.open -= 1;
      use.carried += 1;
    },
  };
}

function whileOpen(seat: Seat, signal: AbortSignal): void {
  const use = usingGuest(seat);
  signal.addEventListener("abort", () => use[Symbol.dispose](), { once: true });
}

function textStream(text: string): Readable {
  return ReadableStream.from([Buffer.from(text)], { objectMode: false });
}
