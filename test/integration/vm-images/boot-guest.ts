/**
 * Boots a guest for a test with the plainest QEMU command there is, so that these tests show images, agent and networks
 * and nothing of the VM runtime. TCG, 256 MiB, everything in a directory of its own.
 */
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { homedir } from "node:os";
import type { Socket } from "node:net";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import type { Abortable } from "@cocoon/core";
import { eventually, temporaryDirectory, type TemporaryDirectory } from "@cocoon/testkit";
import type { BootableImage, ExecRequest, ImageStore, SeedFacts } from "@cocoon/vm";
import { openImageLibrary } from "@cocoon/images";
import { AgentSession } from "../../../packages/qemu/src/agent/agent-session.ts";
import { createQcow2 } from "../../../packages/qemu/src/disk/qcow2.ts";
import { connectIn } from "../../../packages/vm/src/host/unix-socket.ts";

/** One cache for all tests on this machine: building images takes longer than the tests. */
export function cacheDirectory(): string {
  const caches = process.env["XDG_CACHE_HOME"] ?? join(homedir(), ".cache");
  return join(process.env["COCOON_CACHE"] ?? join(caches, "cocoon"), "images");
}

export function testLibrary(): ImageStore {
  return openImageLibrary({ directory: cacheDirectory() });
}

export interface GuestOptions extends Abortable {
  readonly library: ImageStore;
  readonly image: BootableImage;
  readonly facts?: Partial<SeedFacts>;
  /** Value of `-netdev` without its id. */
  readonly netdev?: string;
  readonly mac?: string;
  /** Network name space to run QEMU in. */
  readonly netns?: string;
  readonly storageBytes?: number;
  readonly memoryMiB?: number;
  readonly moreArguments?: readonly string[];
}

export interface Finished {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

export const testMac = "02:00:00:00:00:10";

export class TestGuest implements AsyncDisposable {
  readonly #directory: TemporaryDirectory;
  readonly #process: ChildProcess;
  readonly #signal: AbortSignal;
  #typed: Socket | undefined;
  readonly exited: Promise<unknown>;

  constructor(directory: TemporaryDirectory, process: ChildProcess, signal: AbortSignal) {
    this.#directory = directory;
    this.#process = process;
    this.#signal = signal;
    this.exited = once(process, "exit");
  }

  async console(): Promise<string> {
    return readFile(join(this.#directory.path, "console.log"), "utf8").catch(() => "");
  }

  async openAgent(port = 0, signal = this.#signal): Promise<AgentSession> {
    const channel = await eventually(() => connectIn(this.#directory.path, `agent${port}`, { signal }), {
      signal,
    });
    const { session } = await AgentSession.open(channel, { signal });
    return session;
  }

  /** Waits for the agent, runs the program to its end. */
  async run(argv: readonly string[], more: Partial<ExecRequest> = {}): Promise<Finished> {
    await using session = await this.openAgent();
    return await runIn(session, { argv, ...more }, this.#signal);
  }

  /** Typed at the serial console. A guest takes it up slowly, so the connection stays. */
  async type(text: string): Promise<void> {
    this.#typed ??= await connectIn(this.#directory.path, "console", { signal: this.#signal });
    this.#typed.resume();
    this.#typed.write(text);
  }

  async qmp(command: string): Promise<void> {
    const socket = await connectIn(this.#directory.path, "qmp", { signal: this.#signal });
    await once(socket, "data");
    for (const each of ["qmp_capabilities", command]) {
      socket.write(JSON.stringify({ execute: each }));
      await once(socket, "data");
    }
    socket.destroy();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#typed?.destroy();
    if (this.#process.exitCode === null && this.#process.signalCode === null) {
      this.#process.kill("SIGKILL");
      await this.exited;
    }
    await this.#directory[Symbol.asyncDispose]();
  }
}

export async function runIn(
  session: AgentSession,
  request: ExecRequest,
  signal: AbortSignal,
): Promise<Finished> {
  await using process = await session.exec(request, { signal });
  const [stdout, stderr, exit] = await Promise.all([
    buffer(process.stdout),
    buffer(process.stderr),
    process.exited,
  ]);
  return { code: exit.code, stdout: stdout.toString(), stderr: stderr.toString() };
}

export async function bootGuest(options: GuestOptions): Promise<TestGuest> {
  const { image, signal } = options;
  const directory = await temporaryDirectory();
  const mac = options.mac ?? testMac;
  const facts: SeedFacts = {
    instanceId: "TESTINSTANCE",
    hostname: "guest-one",
    login: {},
    nics: [{ mac, address: { ip: "10.0.2.15", prefix: 24, gateway: "10.0.2.2" }, dns: ["10.0.2.3"] }],
    dataDisks: [],
    ...options.facts,
  };
  await options.library.writeSeed(image, facts, { signal, path: join(directory.path, "seed") });
  await createQcow2({
    path: join(directory.path, "disk"),
    virtualBytes: options.storageBytes ?? Math.max(image.disk.virtualBytes, 2 ** 30),
    backing: { file: image.disk.path, format: image.disk.format },
  });
  const words = ["qemu-system-x86_64", ...guestArguments({ ...options, mac })];
  const [command = "", ...args] =
    options.netns === undefined ? words : ["ip", "netns", "exec", options.netns, ...words];
  const child = spawn(command, args, { cwd: directory.path, stdio: ["ignore", "inherit", "inherit"] });
  await once(child, "spawn");
  return new TestGuest(directory, child, signal);
}

function guestArguments(options: GuestOptions & { readonly mac: string }): string[] {
  const { image } = options;
  const channel = (id: string, more = "") => [
    "-chardev",
    `socket,id=${id},path=${id},server=on,wait=off${more}`,
  ];
  const kernel = image.kernel
    ? [
        "-kernel",
        image.kernel.path,
        "-initrd",
        image.kernel.initrdPath ?? "",
        "-append",
        `console=ttyS0 ${image.kernel.commandLine}`,
      ]
    : [];
  return [
    ["-M", "pc", "-accel", "tcg", "-cpu", "max", "-m", String(options.memoryMiB ?? 256), ...kernel],
    ["-nodefaults", "-no-user-config", "-display", "none"],
    [...channel("console", ",logfile=console.log"), "-serial", "chardev:console"],
    [...channel("qmp"), "-mon", "chardev=qmp,mode=control"],
    ["-device", "virtio-serial-pci"],
    ...[0, 1].map((port) => [
      ...channel(`agent${port}`),
      "-device",
      `virtserialport,chardev=agent${port},name=org.cocoon.agent.${port}`,
    ]),
    ["-netdev", `${options.netdev ?? "user,restrict=on"},id=n0`],
    ["-device", `virtio-net-pci,netdev=n0,mac=${options.mac},romfile=`],
    [
      "-drive",
      "if=none,id=d0,file=disk,format=qcow2,discard=unmap",
      "-device",
      "virtio-blk-pci,drive=d0,serial=cocoon-root",
    ],
    [
      "-drive",
      "if=none,id=d1,file=seed,format=raw,read-only=on",
      "-device",
      "virtio-blk-pci,drive=d1,serial=cocoon-seed",
    ],
    ["-device", "virtio-rng-pci"],
    options.moreArguments ?? [],
  ].flat();
}
