/** `/files`: contents of files, up and down. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { extname, posix } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGunzip } from "node:zlib";
import type { Guest } from "../guest/guest.ts";
import { GuestError, parseRecord, type Frame, type GuestRecord } from "../guest/protocol.ts";
import { ApiError, sendJson } from "../http/answer.ts";
import { readPairs } from "./entry.ts";
import { readBoundary, readParts } from "./multipart.ts";

export interface FileCall {
  readonly guest: Guest;
  readonly query: URLSearchParams;
  readonly signal: AbortSignal;
  /** What one upload may have, also after it was unpacked. */
  readonly maxBytes: number;
}

const statuses: Readonly<Record<string, number>> = {
  not_found: 404,
  invalid_argument: 400,
  already_exists: 400,
  failed_precondition: 400,
  unauthenticated: 401,
  permission_denied: 403,
  resource_exhausted: 507,
};

/** Errors of the guest as these routes answer them. */
export function toFileError(error: unknown): unknown {
  return error instanceof GuestError ? new ApiError(statuses[error.code] ?? 500, error.message) : error;
}

const contentTypes: Readonly<Record<string, string>> = {
  ".css": "text/css; charset=utf-8",
  ".csv": "text/csv; charset=utf-8",
  ".gif": "image/gif",
  ".html": "text/html; charset=utf-8",
  ".jpeg": "image/jpeg",
  ".jpg": "image/jpeg",
  ".js": "text/javascript; charset=utf-8",
  ".json": "application/json",
  ".md": "text/markdown; charset=utf-8",
  ".pdf": "application/pdf",
  ".png": "image/png",
  ".svg": "image/svg+xml",
  ".txt": "text/plain; charset=utf-8",
  ".xml": "text/xml; charset=utf-8",
};

/** Always as it is: gzip would cost more than it saves on the way to a client in the same cluster. */
export async function downloadFile(
  response: ServerResponse,
  { guest, query, signal }: FileCall,
): Promise<void> {
  const path = query.get("path") ?? "";
  const frames = guest.stream({ op: "read", path, user: query.get("username") ?? "" }, { signal });
  const described = await frames.next();
  if (described.done || described.value.type !== "J") throw new ApiError(500, "the guest sent no file");
  const { name, modifiedTime } = parseRecord(described.value);
  const first = await frames.next();
  const filename = encodeURIComponent(String(name));
  response.writeHead(200, {
    "content-type": contentTypes[extname(path).toLowerCase()] ?? "application/octet-stream",
    "content-disposition": `inline; filename*=UTF-8''${filename}`,
    "last-modified": new Date(String(modifiedTime)).toUTCString(),
    vary: "Accept-Encoding",
    ...(first.done ? { "content-length": "0" } : {}),
  });
  if (first.done) {
    response.end();
    return;
  }
  await pipeline(Readable.from(readContent(first.value, frames), { objectMode: false }), response);
}

async function* readContent(first: Frame, frames: AsyncIterable<Frame>): AsyncGenerator<Buffer> {
  if (first.type === "D") yield first.payload;
  for await (const { type, payload } of frames) if (type === "D") yield payload;
}

/** One entry for each file, in order. */
export async function uploadFiles(
  request: IncomingMessage,
  response: ServerResponse,
  call: FileCall,
): Promise<void> {
  const type = request.headers["content-type"] ?? "";
  const body = openBody(request, call.maxBytes);
  const metadata = readMetadata(request);
  const { query } = call;
  if (/^application\/octet-stream\b/i.test(type)) {
    const path = query.get("path");
    if (!path) throw new ApiError(400, "path: an octet-stream upload needs the query parameter");
    sendJson(response, 200, [describe(await writeFile(call, { path, content: body, metadata }))]);
    return;
  }
  if (!/^multipart\/form-data\b/i.test(type))
    throw new ApiError(400, "Content-Type: only multipart/form-data and application/octet-stream are taken");
  const written: unknown[] = [];
  const paths = new Set<string>();
  for await (const { name, filename, content } of readParts(body, readBoundary(type))) {
    if (name !== "file") continue;
    const path = query.get("path") ?? filename ?? "";
    const normal = posix.normalize(path);
    if (path === "") throw new ApiError(400, "a part has no file name, and the query no path");
    if (paths.has(normal))
      throw new ApiError(400, `you cannot upload multiple files to the same path "${path}"`);
    paths.add(normal);
    written.push(describe(await writeFile(call, { path, content, metadata })));
  }
  if (written.length === 0) throw new ApiError(400, "no part is named file");
  sendJson(response, 200, written);
}

/** Unpacked where it is compressed, and never more than allowed. */
async function* openBody(request: IncomingMessage, maxBytes: number): AsyncGenerator<Buffer> {
  const encoding = request.headers["content-encoding"] ?? "identity";
  if (encoding !== "gzip" && encoding !== "identity")
    throw new ApiError(400, `Content-Encoding: ${encoding} is not offered; use gzip or none`);
  const source = encoding === "gzip" ? request.pipe(createGunzip()) : request;
  if (source !== request) request.on("error", (error) => source.destroy(error));
  let size = 0;
  try {
    for await (const piece of source as AsyncIterable<Buffer>) {
      size += piece.length;
      if (size > maxBytes) throw new ApiError(413, `the upload is larger than ${maxBytes} bytes`);
      yield piece;
    }
  } catch (error) {
    if (error instanceof ApiError || source === request) throw error;
    throw new ApiError(400, "the body is not gzip");
  }
}

interface Upload {
  readonly path: string;
  readonly content: AsyncIterable<Buffer>;
  readonly metadata: readonly string[];
}

async function writeFile(
  { guest, query, signal }: FileCall,
  { path, content, metadata }: Upload,
): Promise<GuestRecord> {
  const user = query.get("username") ?? "";
  const [record] = await guest.call({ op: "write", path, user, metadata }, { signal }, content);
  if (!record) throw new ApiError(500, "the guest sent no entry");
  return record;
}

function describe(record: GuestRecord): unknown {
  const metadata = readPairs(record["metadata"]);
  return { path: record["path"], name: record["name"], type: "file", ...(metadata ? { metadata } : {}) };
}

const maxKeyBytes = 246;
const maxMetadataBytes = 4_096;

/** Headers `X-Metadata-{key}` as `key=value`. */
function readMetadata({ headers }: Pick<IncomingMessage, "headers">): readonly string[] {
  const pairs: string[] = [];
  let size = 0;
  for (const [header, value] of Object.entries(headers)) {
    if (!header.startsWith("x-metadata-")) continue;
    const key = header.slice("x-metadata-".length);
    const text = String(value);
    if (
      key === "" ||
      key.length > maxKeyBytes ||
      !/^[\x21-\x3c\x3e-\x7e]+$/.test(key) ||
      !/^[\x20-\x7e]*$/.test(text)
    )
      throw new ApiError(
        400,
        `${header}: keys and values are printable ASCII, keys at most ${maxKeyBytes} bytes`,
      );
    size += key.length + text.length;
    pairs.push(`${key}=${text}`);
  }
  if (size > maxMetadataBytes) throw new ApiError(400, `metadata is larger than ${maxMetadataBytes} bytes`);
  return pairs;
}
