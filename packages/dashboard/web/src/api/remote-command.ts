/**
 * exec and attach as the API server speaks them over a WebSocket, protocol v5: each message begins with its channel:
 * 0 stdin, 1 stdout, 2 stderr, 3 status (JSON), 4 terminal size; [255, n] ends channel n.
 */
import { kubeSocketUrl } from "./client.ts";
import { podPath, queryText } from "./paths.ts";

const protocol = "v5.channel.k8s.io";
const channel = { stdin: 0, stdout: 1, stderr: 2, status: 3, resize: 4, close: 255 } as const;
/** More than that unsent waits: the machine is slower than we are. */
const maxBufferedBytes = 4 * 1024 * 1024;

export interface CommandTarget {
  readonly namespace: string;
  readonly pod: string;
  readonly container: string;
}

export interface CommandOptions extends CommandTarget {
  readonly kind: "exec" | "attach";
  readonly command?: readonly string[];
  readonly tty?: boolean;
  readonly stdin?: boolean;
  readonly onOutput: (bytes: Uint8Array, isError: boolean) => void;
  /** Once, at the end: the exit code, and why where it is not 0. */
  readonly onEnd: (end: CommandEnd) => void;
}

export interface CommandEnd {
  readonly exitCode: number;
  readonly message: string;
}

export interface RemoteCommand {
  write(bytes: Uint8Array): void;
  /** Resolves when what was written has mostly left this browser. */
  drained(): Promise<void>;
  endInput(): void;
  resize(columns: number, rows: number): void;
  close(): void;
}

interface CommandStatus {
  readonly status?: string;
  readonly message?: string;
  readonly details?: { readonly causes?: readonly { readonly reason?: string; readonly message?: string }[] };
}

export function openCommand(options: CommandOptions): RemoteCommand {
  const socket = new WebSocket(kubeSocketUrl(buildPath(options)), [protocol]);
  socket.binaryType = "arraybuffer";
  let end: CommandEnd | undefined;
  let isOver = false;
  const waiting: Uint8Array<ArrayBuffer>[] = [];
  const transmit = (bytes: Uint8Array<ArrayBuffer>) => {
    if (socket.readyState === WebSocket.OPEN) socket.send(bytes);
    else if (socket.readyState === WebSocket.CONNECTING) waiting.push(bytes);
  };
  socket.addEventListener("open", () => {
    for (const bytes of waiting.splice(0)) socket.send(bytes);
  });
  socket.addEventListener("message", ({ data }: MessageEvent<ArrayBuffer>) => {
    const bytes = new Uint8Array(data);
    const body = bytes.subarray(1);
    if (bytes[0] === channel.status) end = readEnd(new TextDecoder().decode(body));
    else if (bytes[0] === channel.stdout || bytes[0] === channel.stderr)
      options.onOutput(body, bytes[0] === channel.stderr);
  });
  socket.addEventListener("close", ({ reason }) => {
    if (isOver) return;
    isOver = true;
    options.onEnd(end ?? { exitCode: -1, message: reason || "the connection ended" });
  });
  return {
    write: (bytes) => transmit(frame(channel.stdin, bytes)),
    drained: () =>
      waitUntil(() => socket.bufferedAmount < maxBufferedBytes || socket.readyState > WebSocket.OPEN),
    endInput: () => transmit(new Uint8Array([channel.close, channel.stdin])),
    resize: (columns, rows) =>
      transmit(
        frame(channel.resize, new TextEncoder().encode(JSON.stringify({ Width: columns, Height: rows }))),
      ),
    close: () => {
      isOver = true;
      socket.close(1000);
    },
  };
}

function buildPath({
  kind,
  namespace,
  pod,
  container,
  command = [],
  tty = false,
  stdin = false,
}: CommandOptions): string {
  const query = {
    container,
    command: [...command],
    stdin: String(stdin),
    stdout: "true",
    stderr: String(!tty && kind === "exec"),
    tty: String(tty),
  };
  return podPath(namespace, pod, kind) + queryText(query);
}

function frame(number: number, bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  const framed = new Uint8Array(bytes.length + 1);
  framed[0] = number;
  framed.set(bytes, 1);
  return framed;
}

export function readEnd(text: string): CommandEnd {
  let status: CommandStatus;
  try {
    status = JSON.parse(text) as CommandStatus;
  } catch {
    return { exitCode: -1, message: text };
  }
  if (status.status === "Success") return { exitCode: 0, message: "" };
  const code = status.details?.causes?.find(({ reason }) => reason === "ExitCode")?.message;
  return { exitCode: code === undefined ? -1 : Number(code), message: status.message ?? "it failed" };
}

async function waitUntil(isTrue: () => boolean): Promise<void> {
  while (!isTrue()) await new Promise((resolve) => setTimeout(resolve, 20));
}

export interface CommandResult extends CommandEnd {
  readonly output: Uint8Array<ArrayBuffer>;
  readonly errors: string;
}

export interface RunOptions {
  readonly input?: Blob;
  readonly maxOutputBytes: number;
  readonly onProgress?: (sentBytes: number) => void;
  /** Ends the command; its promise rejects. */
  readonly signal?: AbortSignal;
}

const pieceBytes = 64 * 1024;

/** Runs a command to its end and returns what it wrote. */
export function runCommand(
  target: CommandTarget,
  command: readonly string[],
  options: RunOptions,
): Promise<CommandResult> {
  return new Promise((resolve, reject) => {
    const pieces: Uint8Array[] = [];
    let size = 0;
    let errors = "";
    const remote = openCommand({
      ...target,
      kind: "exec",
      command,
      stdin: options.input !== undefined,
      onOutput: (bytes, isError) => {
        if (isError) {
          errors = (errors + new TextDecoder().decode(bytes)).slice(0, 4_000);
          return;
        }
        size += bytes.length;
        if (size <= options.maxOutputBytes) pieces.push(bytes.slice());
        else {
          remote.close();
          reject(new Error(`the answer has more than ${options.maxOutputBytes} bytes`));
        }
      },
      onEnd: (end) => resolve({ ...end, errors, output: concat(pieces, size) }),
    });
    options.signal?.addEventListener(
      "abort",
      () => {
        remote.close();
        reject(new Error("the command was given up"));
      },
      { once: true },
    );
    if (options.input) sendInput(remote, options.input, options.onProgress).catch(reject);
  });
}

async function sendInput(
  remote: RemoteCommand,
  input: Blob,
  onProgress?: (sentBytes: number) => void,
): Promise<void> {
  for (let at = 0; at < input.size; at += pieceBytes) {
    remote.write(new Uint8Array(await input.slice(at, at + pieceBytes).arrayBuffer()));
    await remote.drained();
    onProgress?.(Math.min(at + pieceBytes, input.size));
  }
  remote.endInput();
}

function concat(pieces: readonly Uint8Array[], size: number): Uint8Array<ArrayBuffer> {
  const all = new Uint8Array(size);
  let at = 0;
  for (const piece of pieces) {
    all.set(piece, at);
    at += piece.length;
  }
  return all;
}
