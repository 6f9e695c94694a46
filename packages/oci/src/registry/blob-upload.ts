/**
 * Writes blobs. Small ones go in one request; large ones are streamed into an upload session, and a session whose
 * connection broke is continued from the byte that the registry says it has.
 */
import { Backoff, Fault, sleep, toFault, type Abortable } from "@cocoon/core";
import { describe, type Transport } from "./transport.ts";
import { readFault, getHeader, type RequestBody, type WireRequest, type WireResponse } from "./wire.ts";

/** Content that can be read again from any byte. */
export interface BlobContent {
  readonly digest: string;
  readonly size: number;
  open(offset: number): AsyncIterable<Uint8Array>;
}

export interface UploadTarget {
  readonly transport: Transport;
  /** `…/blobs/uploads/` of the repository. */
  readonly uploads: URL;
  readonly scopes: readonly string[];
  /** Whether the blob is there by now; asked when a failed request may have succeeded. */
  readonly exists: (options: Abortable) => Promise<boolean>;
}

export interface UploadOptions extends Abortable {
  /** Called with the number of bytes that went out, again for bytes that had to be sent again. */
  readonly onSent?: (bytes: number) => void;
}

/** Up to this size a broken upload is simply sent again. */
const oneRequestBytes = 16 * 1024 * 1024;

interface Session {
  location: URL;
  /** Bytes that the registry has. */
  offset: number;
}

export async function uploadBlob(
  target: UploadTarget,
  content: BlobContent,
  options: UploadOptions,
): Promise<void> {
  const { signal } = options;
  const backoff = new Backoff(target.transport.retry);
  let session: Session | undefined;
  for (;;) {
    const before = session?.offset ?? 0;
    try {
      session ??= await openSession(target, options);
      await finish(target, content, { ...options, session });
      return;
    } catch (error) {
      if (signal.aborted || backoff.failures + 1 >= target.transport.retry.attempts || !mayContinue(error))
        throw error;
    }
    await sleep(backoff.nextMs(), { signal });
    signal.throwIfAborted();
    if (await target.exists({ signal })) return;
    session = session && (await tryResume(target, session, signal));
    if (session && session.offset > before) backoff.reset();
  }
}

/** A session that the registry forgot, or whose position it disputes, is worth a new one. */
function mayContinue(error: unknown): boolean {
  const { traits, code } = toFault(error);
  return traits.retry || code === "notFound" || code === "rangeNotSatisfiable";
}

async function openSession(target: UploadTarget, { signal }: Abortable): Promise<Session> {
  const request = {
    method: "POST",
    url: target.uploads,
    headers: { "content-length": "0" },
    scopes: target.scopes,
    repeatable: true, // an unused session expires
  } as const;
  const response = await target.transport.send(request, { signal });
  if (response.status !== 202) throw await readFault(response, describe(request));
  await response.body.dump();
  return { location: readLocation(response), offset: 0 };
}

interface FinishOptions extends UploadOptions {
  readonly session: Session;
}

async function finish(target: UploadTarget, content: BlobContent, options: FinishOptions): Promise<void> {
  const { session } = options;
  const rest = content.size - session.offset;
  if (rest > oneRequestBytes) await append(target, content, options);
  const left = content.size - session.offset;
  const request: WireRequest = {
    method: "PUT",
    url: withDigest(session.location, content.digest),
    headers: {
      "content-type": "application/octet-stream",
      ...(session.offset > 0 && left > 0
        ? { "content-range": formatRange(session.offset, content.size) }
        : {}),
    },
    body: bodyFrom(content, options),
    scopes: target.scopes,
    repeatable: false,
  };
  const response = await target.transport.send(request, options);
  if (response.status !== 201 && response.status !== 204) throw await readFault(response, describe(request));
  await response.body.dump();
}

/** Everything that is missing in one request; the closing one then has no body and can be repeated cheaply. */
async function append(target: UploadTarget, content: BlobContent, options: FinishOptions): Promise<void> {
  const { session } = options;
  const request: WireRequest = {
    method: "PATCH",
    url: session.location,
    headers: {
      "content-type": "application/octet-stream",
      ...(session.offset > 0 ? { "content-range": formatRange(session.offset, content.size) } : {}),
    },
    body: bodyFrom(content, options),
    scopes: target.scopes,
    repeatable: false,
  };
  const response = await target.transport.send(request, options);
  if (![201, 202, 204].includes(response.status)) throw await readFault(response, describe(request));
  await response.body.dump();
  session.location = readLocation(response, session.location);
  session.offset = content.size;
}

/** Where the registry stopped, or undefined when the session is lost and the upload starts over. */
async function tryResume(
  target: UploadTarget,
  session: Session,
  signal: AbortSignal,
): Promise<Session | undefined> {
  const request = { method: "GET", url: session.location, scopes: target.scopes, repeatable: true } as const;
  const response = await target.transport.send(request, { signal });
  await response.body.dump();
  if (response.status !== 204 && response.status !== 202) return undefined;
  const range = /^(?:bytes=)?0-(\d+)$/.exec(getHeader(response, "range") ?? "");
  if (!range) return undefined;
  // `0-0` stands for an empty session as well as for one byte; starting over costs nothing in both cases.
  const last = Number(range[1]);
  return last === 0 ? undefined : { location: readLocation(response, session.location), offset: last + 1 };
}

function bodyFrom(content: BlobContent, { session, onSent }: FinishOptions): RequestBody {
  const { offset } = session;
  if (offset === content.size) return new Uint8Array();
  return {
    size: content.size - offset,
    open: async function* () {
      for await (const piece of content.open(offset)) {
        yield piece;
        onSent?.(piece.length);
      }
    },
  };
}

function formatRange(offset: number, size: number): string {
  return `${offset}-${size - 1}`;
}

function readLocation(response: WireResponse, known?: URL): URL {
  const text = getHeader(response, "location");
  const url = text === undefined ? known : URL.parse(text, response.url);
  if (!url) throw new Fault("unavailable", `${response.url.pathname}: the registry named no upload location`);
  return url;
}

/** Appended as text: what the registry put into the query stays as it wrote it. */
function withDigest(location: URL, digest: string): URL {
  const url = new URL(location);
  const parameter = `digest=${encodeURIComponent(digest)}`;
  url.search = url.search === "" ? `?${parameter}` : `${url.search}&${parameter}`;
  return url;
}
