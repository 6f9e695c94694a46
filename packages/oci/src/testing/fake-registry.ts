/**
 * A registry in memory for tests: the Distribution API as far as clients use it, with a hook in front of every
 * request so that a test can refuse, delay, cut or corrupt what it likes, and with counters of what went over the
 * wire. It passes the same suite as the real one (`registry-suite.ts`).
 */
import { randomUUID } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { startHttpServer } from "@cocoon/core";
import { computeDigest, tryReadDigest } from "../digest.ts";
import { authorize, answerToken, type FakeAuth } from "./fake-auth.ts";

export interface StoredBody {
  readonly bytes: Buffer;
  readonly mediaType: string;
}

interface Repo {
  readonly blobs: Map<string, Buffer>;
  readonly manifests: Map<string, StoredBody>;
  readonly tags: Map<string, string>;
}

export interface SeenRequest {
  readonly method: string;
  /** Path and query. */
  readonly path: string;
  readonly headers: IncomingMessage["headers"];
  bodyBytes: number;
}

export interface MemoryRegistryOptions {
  readonly auth?: FakeAuth;
  /** Answer ranges with 206; default true. */
  readonly ranges?: boolean;
  readonly mount?: boolean;
  readonly pageSize?: number;
}

/** True when the hook has answered, or torn down, the request itself. */
export type Hook = (request: IncomingMessage, response: ServerResponse) => boolean | Promise<boolean>;

export interface FakeRegistry extends AsyncDisposable {
  readonly url: string;
  readonly seen: SeenRequest[];
  /** Content by full repository name; tests look and meddle. */
  readonly repos: Map<string, Repo>;
  hook: Hook | undefined;
  /** Removes what no manifest refers to, as a registry's garbage collection does. */
  collectGarbage(): void;
  /** Bytes that clients sent as bodies since the last call. */
  takeReceivedBytes(): number;
  /** Bytes of blobs and manifests that were sent out since the last call. */
  takeSentBytes(): number;
}

interface Upload {
  readonly repo: string;
  bytes: Buffer;
}

interface Call {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly url: URL;
  readonly repo: string;
  readonly rest: string;
}

export async function startFakeRegistry(options: MemoryRegistryOptions = {}): Promise<FakeRegistry> {
  const state = new State(options);
  const server = await startHttpServer({
    name: "memory registry",
    host: "127.0.0.1",
    port: 0,
    drainMs: 100,
    handler: (request, response) => void state.serve(request, response),
  });
  return Object.assign(state, { url: server.url, [Symbol.asyncDispose]: () => server.stop() });
}

class State {
  readonly seen: SeenRequest[] = [];
  readonly repos = new Map<string, Repo>();
  hook: Hook | undefined;
  readonly #options: MemoryRegistryOptions;
  readonly #uploads = new Map<string, Upload>();
  #received = 0;
  #sent = 0;

  constructor(options: MemoryRegistryOptions) {
    this.#options = options;
  }

  collectGarbage(): void {
    for (const { blobs, manifests } of this.repos.values()) {
      const used = new Set(
        [...manifests.values()].flatMap(({ bytes }) => bytes.toString().match(/sha256:[0-9a-f]{64}/g) ?? []),
      );
      for (const digest of blobs.keys()) if (!used.has(digest)) blobs.delete(digest);
    }
  }

  takeReceivedBytes(): number {
    const bytes = this.#received;
    this.#received = 0;
    return bytes;
  }

  takeSentBytes(): number {
    const bytes = this.#sent;
    this.#sent = 0;
    return bytes;
  }

  async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const seen: SeenRequest = {
      method: request.method ?? "",
      path: request.url ?? "",
      headers: request.headers,
      bodyBytes: 0,
    };
    this.seen.push(seen);
    try {
      if (await this.hook?.(request, response)) return;
      request.on("data", (piece: Buffer) => {
        seen.bodyBytes += piece.length;
        this.#received += piece.length;
      });
      request.pause(); // until a handler reads it
      await this.#route(request, response);
    } catch (error) {
      if (!response.headersSent) refuse(response, 500, "INTERNAL_ERROR", String(error));
      else response.destroy();
    }
  }

  async #route(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? "/", "http://registry");
    const { auth } = this.#options;
    if (auth && url.pathname === "/token") return answerToken(auth, { request, response, url });
    if (auth && !authorize(auth, { request, response, url })) return;
    if (url.pathname === "/v2/") return void response.writeHead(200).end("{}");
    if (url.pathname === "/v2/_catalog")
      return this.#page(url, response, { key: "repositories", all: [...this.repos.keys()].sort() });
    const match = /^\/v2\/(.+)\/(manifests|blobs|tags)\/(.*)$/.exec(url.pathname);
    if (!match) return refuse(response, 404, "NAME_UNKNOWN");
    const call = { request, response, url, repo: match[1] ?? "", rest: decodeURIComponent(match[3] ?? "") };
    if (match[2] === "manifests") return this.#manifest(call);
    if (match[2] === "tags") return this.#tags(call);
    return call.rest.startsWith("uploads/") ? this.#upload(call) : this.#blob(call);
  }

  #repo(name: string): Repo {
    const known = this.repos.get(name) ?? { blobs: new Map(), manifests: new Map(), tags: new Map() };
    this.repos.set(name, known);
    return known;
  }

  async #manifest({ request, response, repo, rest }: Call): Promise<void> {
    const known = this.#repo(repo);
    if (request.method === "PUT") {
      const bytes = await readAll(request);
      const digest = tryReadDigest(rest) ? rest : computeDigest(bytes);
      if (digest !== computeDigest(bytes)) return refuse(response, 400, "DIGEST_INVALID");
      known.manifests.set(digest, { bytes, mediaType: request.headers["content-type"] ?? "" });
      if (digest !== rest) known.tags.set(rest, digest);
      response
        .writeHead(201, { "docker-content-digest": digest, location: `/v2/${repo}/manifests/${rest}` })
        .end();
      return;
    }
    const digest = known.tags.get(rest) ?? rest;
    const stored = known.manifests.get(digest);
    if (!stored) return refuse(response, 404, "MANIFEST_UNKNOWN");
    if (request.method === "DELETE") {
      if (digest === rest) known.manifests.delete(digest);
      for (const [tag, target] of known.tags)
        if (tag === rest || (digest === rest && target === digest)) known.tags.delete(tag);
      response.writeHead(202).end();
      return;
    }
    const headers = { "content-type": stored.mediaType, "docker-content-digest": digest };
    this.#send(request, response, { bytes: stored.bytes, headers });
  }

  #tags({ url, response, repo }: Call): void {
    const known = this.repos.get(repo);
    if (!known) return refuse(response, 404, "NAME_UNKNOWN");
    this.#page(url, response, { key: "tags", all: [...known.tags.keys()].sort() });
  }

  // oxlint-disable-next-line max-params -- request, answer and what to list
  #page(url: URL, response: ServerResponse, list: { key: string; all: string[] }): void {
    const last = url.searchParams.get("last");
    const rest = last === null ? list.all : list.all.filter((each) => each > last);
    const size = Number(url.searchParams.get("n") ?? this.#options.pageSize ?? rest.length);
    const page = rest.slice(0, size);
    const more = page.length < rest.length;
    const headers = more ? { link: `<${url.pathname}?last=${page.at(-1)}&n=${size}>; rel="next"` } : {};
    response.writeHead(200, { "content-type": "application/json", ...headers });
    response.end(JSON.stringify({ [list.key]: page }));
  }

  #blob({ request, response, repo, rest }: Call): void {
    const { blobs } = this.#repo(repo);
    const bytes = blobs.get(rest);
    if (!bytes) return refuse(response, 404, "BLOB_UNKNOWN");
    if (request.method === "DELETE") {
      blobs.delete(rest);
      response.writeHead(202).end();
      return;
    }
    const headers = { "content-type": "application/octet-stream", "docker-content-digest": rest };
    const range = /^bytes=(\d+)-(\d+)?$/.exec(request.headers.range ?? "");
    if (!range || this.#options.ranges === false) return this.#send(request, response, { bytes, headers });
    const start = Number(range[1]);
    const end = Math.min(Number(range[2] ?? Infinity), bytes.length - 1);
    if (start > end) return refuse(response, 416, "SIZE_INVALID");
    const partial = { ...headers, "content-range": `bytes ${start}-${end}/${bytes.length}` };
    this.#send(request, response, { status: 206, bytes: bytes.subarray(start, end + 1), headers: partial });
  }

  #send(
    request: IncomingMessage,
    response: ServerResponse,
    answer: { status?: number; bytes: Buffer; headers: Record<string, string> },
  ): void {
    response.writeHead(answer.status ?? 200, { ...answer.headers, "content-length": answer.bytes.length });
    if (request.method === "HEAD") return void response.end();
    this.#sent += answer.bytes.length;
    response.end(answer.bytes);
  }

  async #upload(call: Call): Promise<void> {
    const { request, response, url, repo } = call;
    const id = call.rest.slice("uploads/".length);
    if (request.method === "POST") return this.#startUpload(call);
    const upload = this.#uploads.get(id);
    if (!upload || upload.repo !== repo) return refuse(response, 404, "BLOB_UPLOAD_UNKNOWN");
    const headers = () => ({
      location: request.url?.split("?")[0],
      range: `0-${Math.max(0, upload.bytes.length - 1)}`,
    });
    if (request.method === "GET") return void response.writeHead(204, headers()).end();
    if (request.method === "DELETE") {
      this.#uploads.delete(id);
      return void response.writeHead(204).end();
    }
    const start = /^(\d+)-\d+$/.exec(request.headers["content-range"] ?? "")?.[1];
    if (start !== undefined && Number(start) !== upload.bytes.length)
      return void response.writeHead(416, headers()).end();
    await append(request, upload);
    if (request.method === "PATCH") return void response.writeHead(202, headers()).end();
    const digest = url.searchParams.get("digest") ?? "";
    this.#uploads.delete(id);
    if (computeDigest(upload.bytes) !== digest) return refuse(response, 400, "DIGEST_INVALID");
    this.#repo(repo).blobs.set(digest, upload.bytes);
    response
      .writeHead(201, { location: `/v2/${repo}/blobs/${digest}`, "docker-content-digest": digest })
      .end();
  }

  #startUpload({ response, url, repo }: Call): void {
    const mount = url.searchParams.get("mount");
    const bytes = mount && this.repos.get(url.searchParams.get("from") ?? "")?.blobs.get(mount);
    if (mount && bytes && this.#options.mount !== false) {
      this.#repo(repo).blobs.set(mount, bytes);
      return void response.writeHead(201, { location: `/v2/${repo}/blobs/${mount}` }).end();
    }
    const id = randomUUID();
    this.#uploads.set(id, { repo, bytes: Buffer.alloc(0) });
    response.writeHead(202, { location: `/v2/${repo}/blobs/uploads/${id}`, range: "0-0" }).end();
  }
}

/** Keeps what arrived even when the client vanishes, as a real server does. */
async function append(request: IncomingMessage, upload: Upload): Promise<void> {
  const pieces = [upload.bytes];
  try {
    for await (const piece of request as AsyncIterable<Buffer>) pieces.push(piece);
  } finally {
    upload.bytes = Buffer.concat(pieces);
  }
}

async function readAll(request: IncomingMessage): Promise<Buffer> {
  const pieces: Buffer[] = [];
  for await (const piece of request as AsyncIterable<Buffer>) pieces.push(piece);
  return Buffer.concat(pieces);
}

/** Answers with an error in the form of the specification. */
// oxlint-disable-next-line max-params -- the four parts of an error answer
export function refuse(response: ServerResponse, status: number, code: string, message?: string): void {
  response.writeHead(status, { "content-type": "application/json" });
  response.end(JSON.stringify({ errors: [{ code, message: message ?? code.toLowerCase() }] }));
}
