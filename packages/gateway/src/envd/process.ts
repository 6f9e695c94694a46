/** Service `process.Process`. */
import type { Guest } from "../guest/guest.ts";
import { parseRecord, type Frame, type GuestRecord, type GuestRequest } from "../guest/protocol.ts";
import { ConnectError, type StreamAnswer } from "./connect-codec.ts";
import type { ServiceCall } from "./filesystem.ts";
import {
  inputRequest,
  parseRequest,
  selectRequest,
  signalRequest,
  startRequest,
  streamInputRequest,
  updateRequest,
  type ProcessInput,
  type Selector,
} from "./messages.ts";

type Unary = (message: unknown, call: ServiceCall) => Promise<unknown>;

export const processMethods: Readonly<Record<string, Unary>> = {
  List: async (_message, { guest, signal }) => {
    const records = await guest.call({ op: "processes" }, { signal });
    return { processes: records.map(readProcess) };
  },
  Update: async (message, { guest, signal }) => {
    const { process, pty } = parseRequest(updateRequest, message);
    const { rows = 0, cols = 0 } = pty?.size ?? {};
    if (pty) await guest.call({ op: "process-resize", ...process, rows, columns: cols }, { signal });
    return {};
  },
  SendInput: async (message, { guest, signal }) => {
    const { process, input } = parseRequest(inputRequest, message);
    await sendInput(guest, { process, tty: input.pty !== undefined, data: [decodeInput(input)] }, signal);
    return {};
  },
  SendSignal: async (message, { guest, signal }) => {
    const { process, signal: number } = parseRequest(signalRequest, message);
    await guest.call({ op: "process-signal", ...process, signal: number }, { signal });
    return {};
  },
  CloseStdin: async (message, { guest, signal }) => {
    await guest.call(
      { op: "process-close-input", ...parseRequest(selectRequest, message).process },
      { signal },
    );
    return {};
  },
};

export async function startProcess(
  message: unknown,
  answer: StreamAnswer,
  { guest, user, directory, signal, timeoutMs }: ServiceCall & { readonly timeoutMs: number | undefined },
): Promise<void> {
  const { process, pty, tag, stdin } = parseRequest(startRequest, message);
  const request: GuestRequest = {
    op: "start",
    argv: [process.cmd, ...process.args],
    env: Object.entries(process.envs).map(([name, value]) => `${name}=${value}`),
    cwd: process.cwd || directory,
    user,
    stdin: stdin ?? true,
    ...(tag ? { tag } : {}),
    ...(pty ? { tty: true, rows: pty.size?.rows ?? 24, columns: pty.size?.cols ?? 80 } : {}),
    ...(timeoutMs ? { timeoutMs: Math.ceil(timeoutMs) } : {}),
  };
  await relay(guest.stream(request, { signal }), answer);
}

export async function connectProcess(
  message: unknown,
  answer: StreamAnswer,
  { guest, signal }: ServiceCall,
): Promise<void> {
  const { process } = parseRequest(selectRequest, message);
  await relay(guest.stream({ op: "process-connect", ...process }, { signal }), answer);
}

/** Frames of a process as events. */
async function relay(frames: AsyncIterable<Frame>, answer: StreamAnswer): Promise<void> {
  let tty = false;
  for await (const frame of frames) {
    if (frame.type === "J") {
      const record = parseRecord(frame);
      tty ||= record["tty"] === true;
      await answer.send({ event: readEvent(record) });
      continue;
    }
    const field = frame.type === "E" ? "stderr" : tty ? "pty" : "stdout";
    await answer.send({ event: { data: { [field]: frame.payload.toString("base64") } } });
  }
}

const signalNames: Readonly<Record<number, string>> = {
  1: "hangup",
  2: "interrupt",
  3: "quit",
  6: "aborted",
  9: "killed",
  11: "segmentation fault",
  13: "broken pipe",
  15: "terminated",
};

function readEvent(record: GuestRecord): unknown {
  const { pid, code, signal } = record;
  if (pid !== undefined) return { start: { pid } };
  if (typeof signal === "number" && signal > 0) {
    const status = `signal: ${signalNames[signal] ?? signal}`;
    return { end: { exitCode: -1, exited: false, status, error: status } };
  }
  const status = `exit status ${String(code)}`;
  return { end: { exitCode: code, exited: true, status, ...(code === 0 ? {} : { error: status }) } };
}

function readProcess(record: GuestRecord): unknown {
  const argv = Array.isArray(record["argv"]) ? (record["argv"] as string[]) : [];
  const env = Array.isArray(record["env"]) ? (record["env"] as string[]) : [];
  const envs = Object.fromEntries(
    env.map((pair) => [pair.slice(0, pair.indexOf("=")), pair.slice(pair.indexOf("=") + 1)]),
  );
  const { cwd, tag } = record;
  return {
    pid: record["pid"],
    config: { cmd: argv[0] ?? "", args: argv.slice(1), envs, ...(cwd ? { cwd } : {}) },
    ...(tag ? { tag } : {}),
  };
}

function decodeInput({ stdin, pty }: ProcessInput): Buffer {
  return Buffer.from(stdin ?? pty ?? "", "base64");
}

interface Input {
  readonly process: Selector;
  readonly tty: boolean;
  readonly data: Iterable<Buffer> | AsyncIterable<Buffer>;
}

async function sendInput(guest: Guest, { process, tty, data }: Input, signal: AbortSignal): Promise<void> {
  async function* body(): AsyncGenerator<Buffer> {
    yield* data;
  }
  await guest.call({ op: "process-input", ...process, tty }, { signal }, body());
}

/** Messages of a client stream: where the input goes, then the input. */
export async function streamInput(
  messages: AsyncIterable<unknown>,
  { guest, signal }: ServiceCall,
): Promise<unknown> {
  let process: Selector | undefined;
  for await (const message of messages) {
    const { start, data } = parseRequest(streamInputRequest, message);
    if (start) process = start.process;
    if (!data) continue;
    if (!process) throw new ConnectError("invalid_argument", "start: the first message names the process");
    const { input } = data;
    await sendInput(guest, { process, tty: input.pty !== undefined, data: [decodeInput(input)] }, signal);
  }
  return {};
}
