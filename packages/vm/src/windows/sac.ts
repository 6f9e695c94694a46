/**
 * Fixed addresses for Windows guests, by the Special Administration Console that Windows offers on its serial port.
 * The guest needs no agent and no network for it, only `bcdedit /ems` switched on in the image.
 *
 *   SAC>i                                   lists "Net: 4, Ip=169.254.1.2" lines, one per interface and family
 *   SAC>i 4 10.88.0.5 255.255.0.0 10.88.0.1 gives interface 4 that address, mask and gateway
 */
import type { Duplex } from "node:stream";
import { Fault, sleep, withDeadline, type Abortable } from "@cocoon/core";

interface WindowsAddress {
  readonly ip: string;
  readonly prefix: number;
  readonly gateway?: string;
}

export interface SacOptions extends Abortable {
  /** In the order of the machine's interfaces; undefined = leave that one alone. */
  readonly addresses: readonly (WindowsAddress | undefined)[];
  readonly timing?: Partial<SacTiming>;
}

interface SacTiming {
  /** How long the prompt may take to come. */
  readonly promptMs: number;
  /** How long to wait for an answer, and between two tries. */
  readonly stepMs: number;
  /** How often to look for all interfaces. */
  readonly listTries: number;
  /** How often to look whether an address has been taken. */
  readonly verifyTries: number;
}

const defaults: SacTiming = { promptMs: 60_000, stepMs: 2_000, listTries: 60, verifyTries: 10 };
const prompt = "SAC>";
const maxKept = 256 * 1024;

/** Throws `timeout` when the console does not answer or an address is not taken. The stream stays open. */
export async function assignWindowsAddresses(console: Duplex, options: SacOptions): Promise<void> {
  const timing = { ...defaults, ...options.timing };
  using session = new SacSession(console);
  await session.awaitPrompt(timing, options);
  const nets = await listNets(session, { timing, count: options.addresses.length, signal: options.signal });
  for (const [index, address] of options.addresses.entries()) {
    const net = nets[index];
    if (address && net !== undefined) await assign(session, { net, address, timing, signal: options.signal });
  }
}

interface ListRequest extends Abortable {
  readonly timing: SacTiming;
  readonly count: number;
}

/** Numbers of the interfaces, once there are as many as the machine has. */
async function listNets(
  session: SacSession,
  { timing, count, signal }: ListRequest,
): Promise<readonly number[]> {
  for (let tries = 0; tries < timing.listTries; tries += 1) {
    const nets = [...new Set(readNets(await session.ask("i", timing, { signal })).map(({ net }) => net))];
    if (nets.length >= count) return nets;
    if (!(await sleep(timing.stepMs, { signal }))) signal.throwIfAborted();
  }
  throw new Fault("timeout", `Windows does not show ${count} network interfaces on its console`);
}

interface Assignment extends Abortable {
  readonly net: number;
  readonly address: WindowsAddress;
  readonly timing: SacTiming;
}

async function assign(session: SacSession, { net, address, timing, signal }: Assignment): Promise<void> {
  const words = ["i", net, address.ip, computeMask(address.prefix), address.gateway ?? ""];
  await session.ask(words.join(" ").trim(), timing, { signal });
  for (let tries = 0; tries < timing.verifyTries; tries += 1) {
    const found = readNets(await session.ask("i", timing, { signal }));
    if (found.some((each) => each.net === net && each.ip === address.ip)) return;
    if (!(await sleep(timing.stepMs, { signal }))) signal.throwIfAborted();
  }
  throw new Fault("timeout", `Windows has not taken ${address.ip} for its interface ${net}`);
}

export function readNets(text: string): readonly { readonly net: number; readonly ip: string }[] {
  return [...text.matchAll(/Net:\s*(\d+),\s*Ip=(\S+)/g)].map(([, net, ip]) => ({
    net: Number(net),
    ip: ip ?? "",
  }));
}

/** 16 -> 255.255.0.0 */
export function computeMask(prefix: number): string {
  const bits = prefix === 0 ? 0 : (0xffffffff << (32 - prefix)) >>> 0;
  return [24, 16, 8, 0].map((shift) => (bits >>> shift) & 255).join(".");
}

/** What the console has shown since the last question. */
class SacSession implements Disposable {
  readonly #console: Duplex;
  readonly #listener = (piece: Buffer | string) => {
    this.#shown = `${this.#shown}${piece.toString()}`.slice(-maxKept);
    this.#wake.resolve();
  };
  #shown = "";
  #wake = Promise.withResolvers<void>();

  constructor(console: Duplex) {
    this.#console = console;
    console.on("data", this.#listener);
  }

  [Symbol.dispose](): void {
    this.#console.off("data", this.#listener);
  }

  /** Windows shows the prompt only after input. */
  async awaitPrompt({ promptMs, stepMs }: SacTiming, { signal }: Abortable): Promise<void> {
    const deadline = performance.now() + promptMs;
    while (performance.now() < deadline) {
      this.#console.write("\r\n");
      if (await this.#until(prompt, stepMs, { signal })) return;
    }
    throw new Fault("timeout", "Windows shows no SAC prompt on its console; the image needs EMS switched on");
  }

  /** Types a command and returns what was shown until the next prompt. */
  async ask(command: string, { stepMs }: SacTiming, { signal }: Abortable): Promise<string> {
    this.#shown = "";
    this.#console.write(`${command}\r\n`);
    await this.#until(prompt, stepMs, { signal });
    return this.#shown;
  }

  // oxlint-disable-next-line max-params -- what to wait for, and how long
  async #until(text: string, ms: number, { signal }: Abortable): Promise<boolean> {
    const late = withDeadline(signal, ms);
    while (!this.#shown.includes(text)) {
      this.#wake = Promise.withResolvers();
      const over = new Promise<void>((resolve) =>
        late.addEventListener("abort", () => resolve(), { once: true }),
      );
      await Promise.race([this.#wake.promise, over]);
      signal.throwIfAborted();
      if (late.aborted) return this.#shown.includes(text);
    }
    return true;
  }
}
