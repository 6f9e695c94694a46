/** The provider that the kubelet library sees: machines, and the ways into their guests. */
import type { Duplex, Readable } from "node:stream";
import { Readable as ReadableStream } from "node:stream";
import { annotation, isWindowsPod, screenCommand } from "@cocoon/contract";
import { Fault, type Logger } from "@cocoon/core";
import { keyText, type ObjectKey } from "@cocoon/kube";
import type {
  CommandIo,
  ContainerTarget,
  DisappearanceOptions,
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
import { joinStream } from "../guest/streams.ts";
import { readPodMachine } from "../pod-machine.ts";
import type { VkMetrics } from "../metrics.ts";
import { summarise } from "../stats.ts";
import { findMachineVm } from "./observe.ts";
import type { MachineController } from "./machine-controller.ts";
import type { TrackedMachine } from "./tracked-machine.ts";

export interface CocoonProviderOptions {
  readonly controller: MachineController;
  readonly metrics: VkMetrics;
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
    return this.#counted("create", () => this.#options.controller.bring(pod, options));
  }

  updatePod(pod: Pod, options: ProviderOptions): Promise<void> {
    return this.#counted("update", () => this.#options.controller.bring(pod, options));
  }

  deletePod(pod: Pod, options: ProviderOptions): Promise<void> {
    return this.#options.controller.end(pod, options);
  }

  podDisappeared(pod: Pod, options: DisappearanceOptions): Promise<void> {
    return this.#options.controller.disappear(pod, options);
  }

  async #counted(op: string, work: () => Promise<void>): Promise<void> {
    const { pod_lifecycle_total: lifecycle } = this.#options.metrics;
    try {
      await work();
      lifecycle.inc({ op, result: "ok", reason: "" });
    } catch (error) {
      lifecycle.inc({ op, result: "failed", reason: error instanceof Fault ? error.code : "internal" });
      throw error;
    }
  }

  getPod(key: ObjectKey): Promise<Pod | undefined> {
    const tracked = this.#options.controller.find(key);
    return Promise.resolve(tracked && getKnownPod(tracked));
  }

  getPods(): Promise<readonly Pod[]> {
    return Promise.resolve([...this.#options.controller.machines()].map(getKnownPod));
  }

  onPodStatus(report: ReportPod): void {
    this.#options.controller.onPodStatus(report);
  }

  async logs({ pod }: ContainerTarget, options: LogOptions): Promise<Readable> {
    const tracked = this.#find(pod);
    const guest = await this.#tryGuest(tracked, options.signal);
    if (!guest) return textStream("vk-cocoon: pod has no live VM\n");
    if (guest.windows) return textStream(`${windowsText("logs")}; connect via RDP to ${guest.ip}\n`);
    const { runtime, log, ssh } = this.#options;
    if (options.follow) whileOpen(tracked, options.signal);
    const console = guest.pod.metadata.annotations?.[annotation.logs] === "console";
    return guestLogs({ runtime, vmId: guest.vmId, console, times: this.#consoleTimes, ssh, log }, options);
  }

  async exec(
    { pod, container }: ContainerTarget,
    command: readonly string[],
    io: CommandIo,
  ): Promise<number> {
    const guest = await this.#guest(pod, io.signal);
    using _use = usingGuest(this.#find(pod));
    if (command.length === 1 && command[0] === screenCommand)
      return await joinStream(await this.#options.runtime.openDisplay(guest.vmId, { signal: io.signal }), io);
    if (guest.windows) {
      (io.stderr ?? io.stdout)?.write(`${windowsText("exec")}. Connect via RDP to ${guest.ip}.\n`);
      return 1;
    }
    const { runtime, ssh } = this.#options;
    const spec = guest.pod.spec.containers.find((each) => each.name === container);
    const env = {
      ...Object.fromEntries((spec?.env ?? []).map(({ name, value }) => [name, value ?? ""])),
      ...readPodMachine(guest.pod).env?.values,
    };
    return await execInGuest({ runtime, vmId: guest.vmId, command, env, ssh }, io);
  }

  /** The serial console; leaving it does not end anything in the guest. */
  async attach({ pod }: ContainerTarget, io: CommandIo): Promise<number> {
    const guest = await this.#guest(pod, io.signal);
    using _use = usingGuest(this.#find(pod));
    return await joinStream(await this.#options.runtime.openConsole(guest.vmId, { signal: io.signal }), io);
  }

  async portForward(pod: ObjectKey, port: number, { signal }: ProviderOptions): Promise<Duplex> {
    const guest = await this.#guest(pod, signal);
    const use = usingGuest(this.#find(pod));
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
    const { runtime, node, controller } = this.#options;
    return summarise({
      runtime,
      node,
      machines: [...controller.machines()],
      startedAt: this.#startedAt,
      signal,
    });
  }

  #find(key: ObjectKey): TrackedMachine {
    const tracked = this.#options.controller.find(key);
    if (!tracked) throw new Fault("notFound", `pod ${keyText(key)} is not on this node`);
    return tracked;
  }

  async #guest(key: ObjectKey, signal: AbortSignal): Promise<LiveGuest> {
    const guest = await this.#tryGuest(this.#find(key), signal);
    if (!guest) throw new Fault("conflict", `pod ${keyText(key)} has no live VM`);
    return guest;
  }

  async #tryGuest(tracked: TrackedMachine, signal: AbortSignal): Promise<LiveGuest | undefined> {
    const { pod } = tracked.writer;
    const machine = readPodMachine(pod);
    if (!machine.vm.managed) return undefined;
    const vm = await findMachineVm(this.#options.runtime, machine, { signal });
    if (!vm || (vm.state !== "running" && vm.state !== "paused")) return undefined;
    const ip = tracked.shown?.kind === "live" ? tracked.shown.ip : machine.runtime.ip;
    return { vmId: vm.id, ip, pod, windows: isWindowsPod(pod) };
  }
}

/** What the kubelet compares with: a pod whose last attempt failed looks different, so it is handed over again. */
function getKnownPod(tracked: TrackedMachine): Pod {
  const { pod } = tracked.writer;
  if (!tracked.failed) return pod;
  const annotations = { ...pod.metadata.annotations, "cocoonstack.io/last-attempt": "failed" };
  return { ...pod, metadata: { ...pod.metadata, annotations } };
}

/** A guest that is in use is not idle. */
function usingGuest({ use }: TrackedMachine): Disposable {
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

function whileOpen(tracked: TrackedMachine, signal: AbortSignal): void {
  const use = usingGuest(tracked);
  signal.addEventListener("abort", () => use[Symbol.dispose](), { once: true });
}

function windowsText(verb: string): string {
  return `vk-cocoon: kubectl ${verb} is not supported on Windows guests`;
}

function textStream(text: string): Readable {
  return ReadableStream.from([Buffer.from(text)], { objectMode: false });
}
