/**
 * The runtime of a Sandbox (python-runtime-sandbox, port 8888), served through the guest's agent: stock images need no server of
 * their own. Paths are relative to the base directory and stay in it.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { posix } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { Abortable } from "@cocoon/core";
import { GuestError, parseRecord, type Frame } from "../guest/protocol.ts";
import type { Guest } from "../guest/guest.ts";
import { readBoundary, readParts } from "../envd/multipart.ts";
import { readJsonBody, sendJson } from "../http/answer.ts";
import { RouterError } from "./router-error.ts";
import { splitWords } from "./shell-words.ts";

export const runtimePort = 8888;
const baseDirectory = "/app";
const defaultSeconds = 300;
const maxOutputBytes = 64 * 1024 * 1024;

export interface RuntimeCall extends Abortable {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly guest: Guest;
  readonly maxUploadBytes: number;
}

type Route = (call: RuntimeCall, path: string) => Promise<void>;

const routes: Readonly<Record<string, Route>> = {
  "GET /": async ({ response }) => sendJson(response, 200, { status: "ok", message: "Sandbox is ready" }),
  "POST /execute": execute,
  "POST /upload": upload,
  "GET /download": download,
  "GET /list": list,
  "GET /exists": exists,
};

export async function serveRuntime(call: RuntimeCall): Promise<void> {
  const { request } = call;
  const [path = "/"] = (request.url ?? "/").split("?", 1);
  const [, head = "", rest = ""] = /^\/([^/]*)\/?(.*)$/.exec(path) ?? [];
  const route = routes[`${request.method} /${head}`];
  if (!route) throw new RouterError(404, `${request.method} ${path} is not served`, "message");
  try {
    await route(call, decodeURIComponent(rest));
  } catch (error) {
    throw toRuntimeError(error);
  }
}

const statuses: Readonly<Record<string, number>> = {
  not_found: 404,
  invalid_argument: 400,
  permission_denied: 403,
};

function toRuntimeError(error: unknown): unknown {
  if (error instanceof URIError) return new RouterError(400, "the path is not encoded", "message");
  if (!(error instanceof GuestError)) return error;
  return new RouterError(statuses[error.code] ?? 500, error.message, "message");
}

export function resolvePath(path: string): string {
  const resolved = posix.resolve(baseDirectory, path);
  if (resolved !== baseDirectory && !resolved.startsWith(`${baseDirectory}/`))
    throw new RouterError(403, "Access denied", "message");
  return resolved;
}

interface Execution {
  readonly command?: unknown;
  readonly timeout_seconds?: unknown;
}

/** Words, and no shell. What fails is an answer, too. */
async function execute({ request, response, guest, signal }: RuntimeCall): Promise<void> {
  const { command, timeout_seconds: limit } = ((await readJsonBody(request)) ?? {}) as Execution;
  if (typeof command !== "string") throw new RouterError(400, "command: a text is required", "message");
  const argv = splitWords(command);
  if (argv.length === 0) throw new RouterError(400, "command: is empty", "message");
  const seconds = typeof limit === "number" && limit > 0 ? limit : defaultSeconds;
  await guest.call({ op: "mkdir", path: baseDirectory, user: "root" }, { signal }).catch(ignoreExisting);
  const started = performance.now();
  try {
    const timeoutMs = Math.ceil(seconds * 1_000);
    const request_ = { op: "start", argv, cwd: baseDirectory, user: "root", stdin: false, timeoutMs };
    const { code, stdout, stderr } = await collect(guest.stream(request_, { signal }));
    const timedOut = code === undefined && performance.now() - started >= timeoutMs;
    const exit = code ?? (timedOut ? 124 : 1);
    sendJson(response, 200, { stdout, stderr, exit_code: exit, ...(timedOut ? { timed_out: true } : {}) });
  } catch (error) {
    if (!(error instanceof GuestError)) throw error;
    sendJson(response, 200, {
      stdout: "",
      stderr: `Failed to execute command: ${error.message}`,
      exit_code: 1,
    });
  }
}

function ignoreExisting(error: unknown): void {
  if (!(error instanceof GuestError) || error.code !== "already_exists") throw error;
}

/** `code` is undefined when a signal ended the program. */
async function collect(
  frames: AsyncIterable<Frame>,
): Promise<{ readonly code: number | undefined; readonly stdout: string; readonly stderr: string }> {
  const output: Record<"O" | "E", Buffer[]> = { O: [], E: [] };
  let size = 0;
  let code: number | undefined;
  for await (const frame of frames) {
    if (frame.type === "J") {
      const record = parseRecord(frame);
      if (typeof record["code"] === "number" && !record["signal"]) code = record["code"];
    } else if (frame.type === "O" || frame.type === "E") {
      size += frame.payload.length;
      if (size <= maxOutputBytes) output[frame.type].push(Buffer.from(frame.payload));
    }
  }
  const text = (parts: readonly Buffer[]) => Buffer.concat(parts).toString("utf8");
  return { code, stdout: text(output.O), stderr: text(output.E) };
}

async function upload({ request, response, guest, signal, maxUploadBytes }: RuntimeCall): Promise<void> {
  const type = request.headers["content-type"] ?? "";
  if (!/^multipart\/form-data\b/i.test(type))
    throw new RouterError(400, "Content-Type: must be multipart/form-data", "message");
  for await (const { name, filename = "", content } of readParts(
    limit(request, maxUploadBytes),
    readBoundary(type),
  )) {
    if (name !== "file") continue;
    await guest.call({ op: "write", path: resolvePath(filename), user: "root" }, { signal }, content);
    sendJson(response, 200, { message: `File '${filename}' uploaded successfully.` });
    return;
  }
  throw new RouterError(400, "no part is named file", "message");
}

async function* limit(source: AsyncIterable<Buffer>, maxBytes: number): AsyncGenerator<Buffer> {
  let size = 0;
  for await (const piece of source) {
    size += piece.length;
    if (size > maxBytes) throw new RouterError(413, `the upload is larger than ${maxBytes} bytes`, "message");
    yield piece;
  }
}

async function download({ response, guest, signal }: RuntimeCall, path: string): Promise<void> {
  const frames = guest.stream({ op: "read", path: resolvePath(path), user: "root" }, { signal });
  await frames.next(); // the entry; what is not there is thrown here
  response.writeHead(200, { "content-type": "application/octet-stream" });
  await pipeline(Readable.from(readContent(frames), { objectMode: false }), response);
}

async function* readContent(frames: AsyncIterable<Frame>): AsyncGenerator<Buffer> {
  for await (const { type, payload } of frames) if (type === "D") yield payload;
}

async function list({ response, guest, signal }: RuntimeCall, path: string): Promise<void> {
  const records = await guest.call(
    { op: "list", path: resolvePath(path), depth: 1, user: "root" },
    { signal },
  );
  const entries = records.map(({ name, size, type, modifiedTime }) => ({
    name,
    size: Number(size),
    type: type === "DIRECTORY" ? "directory" : "file",
    mod_time: Date.parse(String(modifiedTime)) / 1_000,
  }));
  sendJson(response, 200, entries);
}

async function exists({ response, guest, signal }: RuntimeCall, path: string): Promise<void> {
  const answer = (found: boolean) => sendJson(response, 200, { path, exists: found });
  try {
    await guest.call({ op: "stat", path: resolvePath(path), user: "root" }, { signal });
    answer(true);
  } catch (error) {
    if (!(error instanceof GuestError) || error.code !== "not_found") throw error;
    answer(false);
  }
}
