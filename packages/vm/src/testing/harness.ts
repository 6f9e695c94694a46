/** What the contract suite needs of a backend: an empty store, an image that boots, and a few words for guests. */
import assert from "node:assert/strict";
import { type Abortable, type FaultCode, isFault } from "@cocoon/core";
import { eventually } from "@cocoon/testkit";
import type { GuestExit, VmEvent, VmRuntime } from "../runtime.ts";
import type { RunSpec } from "../requests.ts";
import type { Vm } from "../vm.ts";

export interface RuntimeHarness extends AsyncDisposable {
  readonly runtime: VmRuntime;
  /** Name of a local image with an agent and an SSH server. */
  readonly image: string;
  /** How the smallest machine that boots it is asked for. */
  readonly small: Pick<RunSpec, "cpus" | "memoryBytes" | "storageBytes">;
  /** Another runtime over the same store, as another process, or the same after its restart, would have it. */
  reopen(): Promise<VmRuntime>;
  /** Ends the VM's process the hard way. */
  kill(vm: Vm): Promise<void>;
  /** What exists on the host because of VMs and snapshots: processes, directories, addresses. Empty when all are gone. */
  leftovers(): Promise<readonly string[]>;
}

export type OpenHarness = (options: Abortable) => Promise<RuntimeHarness>;

/** How long a guest may need to boot on a loaded machine without acceleration. */
export const bootMs = 180_000;

export interface Ran extends GuestExit {
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a program in the guest to its end. */
export async function runIn(
  runtime: VmRuntime,
  ref: string,
  command: {
    readonly argv: readonly string[];
    readonly stdin?: string;
    readonly env?: Record<string, string>;
  },
): Promise<Ran> {
  const signal = AbortSignal.timeout(bootMs);
  const request = { argv: command.argv, env: command.env ?? {}, stdin: command.stdin !== undefined };
  await using program = await runtime.exec(ref, request, { signal });
  if (command.stdin !== undefined) program.stdin.end(command.stdin);
  const [stdout, stderr, exit] = await Promise.all([
    readText(program.stdout),
    readText(program.stderr),
    program.exited,
  ]);
  return { stdout, stderr, ...exit };
}

async function readText(stream: AsyncIterable<Buffer>): Promise<string> {
  const pieces: Buffer[] = [];
  for await (const piece of stream) pieces.push(piece);
  return Buffer.concat(pieces).toString("utf8");
}

export async function put(
  runtime: VmRuntime,
  ref: string,
  file: { path: string; text: string },
): Promise<void> {
  const ran = await runIn(runtime, ref, { argv: ["tee", file.path], stdin: file.text });
  assert.equal(ran.code, 0, ran.stderr);
}

/** The file's text; undefined when there is none. */
export async function get(runtime: VmRuntime, ref: string, path: string): Promise<string | undefined> {
  const ran = await runIn(runtime, ref, { argv: ["cat", path] });
  return ran.code === 0 ? ran.stdout : undefined;
}

/** Starts a counter that lives in the guest's memory and counts ten times a second. */
export async function startCounter(runtime: VmRuntime, ref: string): Promise<void> {
  const script =
    "(i=0; while :; do i=$((i+1)); echo $i > /run/counter.new; mv /run/counter.new /run/counter; sleep 0.1; done) >/dev/null 2>&1 </dev/null &";
  const ran = await runIn(runtime, ref, { argv: ["sh", "-c", script] });
  assert.equal(ran.code, 0, ran.stderr);
  await eventually(() => readCounter(runtime, ref));
}

export async function readCounter(runtime: VmRuntime, ref: string): Promise<number> {
  const text = await get(runtime, ref, "/run/counter");
  assert.match(text ?? "nothing", /^\d+\n$/);
  return Number(text);
}

/** Rejects with a fault of that code, and with nothing else. */
export async function refuses(work: Promise<unknown>, code: FaultCode, message?: RegExp): Promise<void> {
  await assert.rejects(work, (error) => {
    assert.ok(
      isFault(error, code),
      `expected ${code}, got ${error instanceof Error ? error.message : String(error)}`,
    );
    if (message) assert.match(error.message, message);
    return true;
  });
}

/** Collects events in the background; `waitFor` resolves with the first one that matches, seen or to come. */
export class EventLog implements AsyncDisposable {
  readonly events: VmEvent[] = [];
  readonly #stop = new AbortController();
  readonly #done: Promise<void>;
  #wake = Promise.withResolvers<void>();

  constructor(runtime: VmRuntime) {
    this.#done = this.#collect(runtime);
  }

  async #collect(runtime: VmRuntime): Promise<void> {
    for await (const event of runtime.watch({ signal: this.#stop.signal })) {
      this.events.push(event);
      this.#wake.resolve();
      this.#wake = Promise.withResolvers();
    }
  }

  async waitFor<K extends VmEvent["kind"]>(
    kind: K,
    matches: (event: Extract<VmEvent, { kind: K }>) => boolean = () => true,
    withinMs = 30_000,
  ): Promise<Extract<VmEvent, { kind: K }>> {
    const deadline = AbortSignal.timeout(withinMs);
    for (let next = 0; ;) {
      for (; next < this.events.length; next += 1) {
        const event = this.events[next] as Extract<VmEvent, { kind: K }>;
        if (event.kind === kind && matches(event)) return event;
      }
      const late = new Promise<never>((_resolve, reject) => {
        const fail = () =>
          reject(
            new Error(
              `no "${kind}" within ${withinMs} ms; seen: ${this.events.map((each) => each.kind).join(", ")}`,
            ),
          );
        if (deadline.aborted) fail();
        else deadline.addEventListener("abort", fail, { once: true });
      });
      await Promise.race([this.#wake.promise, late]);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#done;
  }
}
