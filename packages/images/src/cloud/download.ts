/**
 * Downloads that survive: a partial file is continued from where it stopped, and only if the server still has the
 * same file. A connection that breaks is taken up again; one that brings nothing for a while is broken.
 *
 *   downloads/HEX.part    bytes so far; HEX = SHA-256 of the URL
 *   downloads/HEX.json    what the server said about the file they belong to
 */
import { createHash } from "node:crypto";
import { mkdir, open, rm, stat, statfs } from "node:fs/promises";
import { join } from "node:path";
import {
  Backoff,
  Fault,
  ignoreMissing,
  sleep,
  systemCode,
  toFault,
  tryReadJson,
  writeFileAtomically,
  type Abortable,
} from "@cocoon/core";
import * as z from "zod";
import type { ImagePolicy } from "../image-policy.ts";
import { sendGuarded, type GuardedRequest } from "./guarded-request.ts";

export interface DownloadOptions extends Abortable {
  readonly directory: string;
  readonly maxBytes: number;
  readonly onProgress?: (progress: { readonly doneBytes: number; readonly totalBytes?: number }) => void;
  readonly policy?: ImagePolicy;
}

export interface Downloaded {
  readonly path: string;
  /** What the server calls this version, for asking later whether there is a newer one. */
  readonly validator?: string;
}

const stateSchema = z.object({
  url: z.string(),
  validator: z.string().optional(),
  totalBytes: z.int().nonnegative().optional(),
});

type State = Readonly<z.infer<typeof stateSchema>>;

/** A connection without data for this long is taken for dead. */
const idleMs = 60_000;
/** Attempts in a row that bring nothing. */
const maxAttempts = 5;

/** The caller holds the lock of this URL, takes the finished file away, and removes what is left when it gives up for good. */
export async function download(url: string, options: DownloadOptions): Promise<Downloaded> {
  const files = downloadFiles(url, options.directory);
  await mkdir(options.directory, { recursive: true, mode: 0o700 });
  const backoff = new Backoff({ baseMs: 500, maxMs: 10_000 });
  let failures = 0;
  for (;;) {
    const before = await readSize(files.part);
    try {
      const state = await fetchRest(url, files, options);
      return { path: files.part, ...(state.validator === undefined ? {} : { validator: state.validator }) };
    } catch (error) {
      options.signal.throwIfAborted();
      const fault = networkFault(error, url);
      if (!fault.traits.retry || fault.code === "outOfSpace") throw fault;
      failures = (await readSize(files.part)) > before ? 0 : failures + 1;
      if (failures >= maxAttempts) throw fault;
    }
    await sleep(backoff.nextMs(), options);
    options.signal.throwIfAborted();
  }
}

/** Whether the server has another version now than the one known by that validator. A server that does not answer is an error. */
export async function isUnchanged(
  url: string,
  validator: string,
  { signal, policy }: Pick<DownloadOptions, "signal" | "policy">,
): Promise<boolean> {
  const header =
    validator.startsWith('"') || validator.startsWith("W/") ? "if-none-match" : "if-modified-since";
  const response = await request(url, {
    headers: { [header]: validator },
    method: "HEAD",
    signal,
    ...(policy ? { policy } : {}),
  });
  await response.body?.cancel();
  return response.status === 304;
}

export async function discardDownload(url: string, directory: string): Promise<void> {
  const files = downloadFiles(url, directory);
  await rm(files.part, { force: true });
  await rm(files.state, { force: true });
}

function downloadFiles(url: string, directory: string): { readonly part: string; readonly state: string } {
  const hex = createHash("sha256").update(url).digest("hex");
  return { part: join(directory, `${hex}.part`), state: join(directory, `${hex}.json`) };
}

async function fetchRest(
  url: string,
  files: ReturnType<typeof downloadFiles>,
  options: DownloadOptions,
): Promise<State> {
  const known = await tryReadJson(files.state, stateSchema);
  const have = known?.validator === undefined ? 0 : await readSize(files.part);
  if (known && known.totalBytes !== undefined && have === known.totalBytes && have > 0) return known;
  const silent = new AbortController();
  const idle = setTimeout(() => silent.abort(new Fault("timeout", `no data for ${idleMs} ms`)), idleMs);
  idle.unref();
  try {
    const signal = AbortSignal.any([options.signal, silent.signal]);
    const headers = have > 0 ? { range: `bytes=${have}-`, "if-range": known?.validator ?? "" } : {};
    const response = await request(url, {
      headers: { ...headers, "accept-encoding": "identity" },
      method: "GET",
      signal,
      ...(options.policy ? { policy: options.policy } : {}),
    });
    if (response.status === 416) {
      await rm(files.part, { force: true });
      throw new Fault("unavailable", `${url}: the server has another file than the part that is here`);
    }
    const start = readStart(response, have);
    const state = readResponseState(url, response, start);
    await checkRoom(state, { ...options, start });
    await writeFileAtomically(files.state, JSON.stringify(state), { mode: 0o600 });
    await writeBody(response, { ...options, path: files.part, start, idle, state });
    return state;
  } finally {
    clearTimeout(idle);
  }
}

async function request(url: string, init: GuardedRequest): Promise<Response> {
  const response = await sendGuarded(url, init);
  if (response.ok || response.status === 304 || response.status === 416) return response;
  await response.body?.cancel();
  const code =
    response.status === 404 || response.status === 410
      ? "notFound"
      : response.status >= 500
        ? "unavailable"
        : "forbidden";
  throw new Fault(
    response.status === 429 ? "tooManyRequests" : code,
    `${url}: the server answers ${response.status}`,
  );
}

/** Where the body's first byte belongs. */
function readStart(response: Response, have: number): number {
  if (response.status !== 206) return 0;
  const range = /^bytes (?<start>\d+)-/.exec(response.headers.get("content-range") ?? "");
  const start = Number(range?.groups?.["start"] ?? Number.NaN);
  if (start !== have) throw new Fault("unavailable", `the server sent bytes from ${start}, not from ${have}`);
  return start;
}

function readResponseState(url: string, response: Response, start: number): State {
  const length = response.headers.get("content-length");
  const etag = response.headers.get("etag");
  // Only a strong validator may be used for resuming.
  const validator = etag && !etag.startsWith("W/") ? etag : response.headers.get("last-modified");
  return {
    url,
    ...(validator === null ? {} : { validator }),
    ...(length === null ? {} : { totalBytes: start + Number(length) }),
  };
}

async function checkRoom(state: State, options: DownloadOptions & { readonly start: number }): Promise<void> {
  if (state.totalBytes === undefined) return;
  if (state.totalBytes > options.maxBytes) {
    throw new Fault(
      "tooLarge",
      `${state.url} has ${state.totalBytes} bytes, more than the ${options.maxBytes} allowed`,
    );
  }
  const { bavail, bsize } = await statfs(options.directory);
  if (state.totalBytes - options.start > bavail * bsize) {
    throw new Fault(
      "outOfSpace",
      `${state.url} does not fit: ${bavail * bsize} bytes are free in ${options.directory}`,
    );
  }
}

interface BodyOptions extends DownloadOptions {
  readonly path: string;
  readonly start: number;
  readonly idle: NodeJS.Timeout;
  readonly state: State;
}

async function writeBody(response: Response, options: BodyOptions): Promise<void> {
  const { state, onProgress } = options;
  const total = state.totalBytes === undefined ? {} : { totalBytes: state.totalBytes };
  await using file = await open(options.path, options.start > 0 ? "r+" : "w", 0o600);
  let done = options.start;
  const body: AsyncIterable<Uint8Array> | Iterable<Uint8Array> = response.body ?? [];
  for await (const chunk of body) {
    options.idle.refresh();
    await file.write(chunk, 0, chunk.length, done);
    done += chunk.length;
    if (done > options.maxBytes)
      throw new Fault("tooLarge", `${state.url} is larger than ${options.maxBytes} bytes`);
    onProgress?.({ doneBytes: done, ...total });
  }
  await file.truncate(done);
  if (state.totalBytes !== undefined && done !== state.totalBytes) {
    throw new Fault("unavailable", `${state.url} ended after ${done} of ${state.totalBytes} bytes`);
  }
}

/** What goes wrong on the wire may go right the next time. */
function networkFault(error: unknown, url: string): Fault {
  if (error instanceof Fault) return error;
  if (error instanceof TypeError || isNetworkError(error))
    return new Fault("unavailable", `${url} cannot be fetched`, { cause: error });
  return toFault(error);
}

function isNetworkError(error: unknown): boolean {
  return /^(?:ECONN|ENOTFOUND|EAI_|EPIPE|ETIMEDOUT|EHOST|ENET|ERR_TLS|ERR_SSL|UND_|HPE_|CERT_|ERR_STREAM_PREMATURE)/.test(
    systemCode(error) ?? "",
  );
}

async function readSize(path: string): Promise<number> {
  return (await ignoreMissing(stat(path)))?.size ?? 0;
}
