/** A registry for a test, and a plain HTTP client that shows every header and byte of an answer. */
import assert from "node:assert/strict";
import { hash, randomBytes } from "node:crypto";
import { join } from "node:path";
import { startRegistry, type RegistryOptions, type RunningRegistry } from "@cocoon/registry";
import { temporaryDirectory } from "@cocoon/testkit";

export const type = {
  manifest: "application/vnd.oci.image.manifest.v1+json",
  index: "application/vnd.oci.image.index.v1+json",
  config: "application/vnd.oci.image.config.v1+json",
  layer: "application/vnd.oci.image.layer.v1.tar",
} as const;

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Buffer;
  json(): unknown;
  /** The first error code of an error answer. */
  readonly code: string | undefined;
}

export interface Request {
  readonly method?: string;
  readonly headers?: Record<string, string>;
  readonly body?: Uint8Array | string | ReadableStream<Uint8Array>;
}

export class Client {
  readonly base: string;
  readonly token: string | undefined;

  constructor(base: string, token?: string) {
    this.base = base;
    this.token = token;
  }

  async request(path: string, { method = "GET", headers = {}, body }: Request = {}): Promise<Answer> {
    const response = await fetch(new URL(path, this.base), {
      method,
      headers: { ...(this.token === undefined ? {} : { authorization: `Bearer ${this.token}` }), ...headers },
      redirect: "manual",
      ...(body === undefined ? {} : { body, duplex: "half" }),
    });
    const bytes = Buffer.from(await response.arrayBuffer());
    return {
      status: response.status,
      headers: response.headers,
      body: bytes,
      json: () => JSON.parse(bytes.toString("utf8")) as unknown,
      code: errorCode(bytes),
    };
  }

  get(path: string, headers: Record<string, string> = {}): Promise<Answer> {
    return this.request(path, { headers });
  }

  head(path: string): Promise<Answer> {
    return this.request(path, { method: "HEAD" });
  }

  delete(path: string): Promise<Answer> {
    return this.request(path, { method: "DELETE" });
  }

  post(path: string, request: Request = {}): Promise<Answer> {
    return this.request(path, { ...request, method: "POST" });
  }

  put(path: string, request: Request = {}): Promise<Answer> {
    return this.request(path, { ...request, method: "PUT" });
  }

  patch(path: string, request: Request = {}): Promise<Answer> {
    return this.request(path, { ...request, method: "PATCH" });
  }

  /** Opens an upload session; the path to write to. */
  async begin(name: string): Promise<string> {
    const answer = await this.post(`/v2/${name}/blobs/uploads/`);
    assert.equal(answer.status, 202);
    return location(answer);
  }

  /** Pushes a blob in one go and returns its digest. */
  async pushBlob(name: string, content: Uint8Array, algorithm = "sha256"): Promise<string> {
    const digest = computeDigest(content, algorithm);
    const answer = await this.put(withDigest(await this.begin(name), digest), { body: content });
    assert.equal(answer.status, 201, answer.body.toString());
    return digest;
  }

  async pushManifest(name: string, reference: string, manifest: unknown): Promise<Answer> {
    const bytes = manifest instanceof Uint8Array ? manifest : Buffer.from(JSON.stringify(manifest));
    const mediaType = (JSON.parse(Buffer.from(bytes).toString("utf8")) as { mediaType?: string }).mediaType;
    return this.put(`/v2/${name}/manifests/${reference}`, {
      body: bytes,
      headers: { "content-type": mediaType ?? type.manifest },
    });
  }

  /** An image with one random layer under that tag; returns the manifest and its digest. */
  async pushImage(name: string, tag: string, layerBytes = 1_000): Promise<PushedImage> {
    const manifest = await this.newImage(name, layerBytes);
    const bytes = Buffer.from(JSON.stringify(manifest));
    const answer = await this.pushManifest(name, tag, bytes);
    assert.equal(answer.status, 201, answer.body.toString());
    return { manifest, bytes, digest: computeDigest(bytes) };
  }

  /** The blobs of an image, and its manifest, which is not pushed. */
  async newImage(name: string, layerBytes = 1_000): Promise<ImageManifest> {
    const layer = randomBytes(layerBytes);
    const config = Buffer.from(
      JSON.stringify({ architecture: "amd64", os: "linux", nonce: randomBytes(8).toString("hex") }),
    );
    return {
      schemaVersion: 2,
      mediaType: type.manifest,
      config: { mediaType: type.config, digest: await this.pushBlob(name, config), size: config.length },
      layers: [{ mediaType: type.layer, digest: await this.pushBlob(name, layer), size: layer.length }],
    };
  }
}

interface DescriptorJson {
  readonly mediaType: string;
  readonly digest: string;
  readonly size: number;
}

export interface ImageManifest {
  readonly schemaVersion: 2;
  readonly mediaType: string;
  readonly config: DescriptorJson;
  readonly layers: readonly DescriptorJson[];
}

export interface PushedImage {
  readonly manifest: ImageManifest;
  readonly bytes: Buffer;
  readonly digest: string;
}

function errorCode(bytes: Buffer): string | undefined {
  try {
    return (JSON.parse(bytes.toString("utf8")) as { errors?: { code: string }[] }).errors?.[0]?.code;
  } catch {
    return undefined; // not an error body
  }
}

export function computeDigest(content: Uint8Array, algorithm = "sha256"): string {
  return `${algorithm}:${hash(algorithm, content)}`;
}

export function location(answer: Answer): string {
  const value = answer.headers.get("location");
  assert.ok(value, "an answer with a Location");
  return value;
}

/** As clients do it: the digest is added to whatever query the location has. */
export function withDigest(path: string, digest: string): string {
  return `${path}${path.includes("?") ? "&" : "?"}digest=${encodeURIComponent(digest)}`;
}

export interface World extends AsyncDisposable {
  readonly registry: RunningRegistry;
  /** May do everything. */
  readonly client: Client;
  readonly root: string;
  clientWith(...scopes: string[]): Promise<Client>;
  /** Stops the registry and starts another one on the same content. */
  restart(options?: Partial<RegistryOptions>): Promise<void>;
}

/** A registry on a directory of its own, unless the options name another storage. */
export async function startWorld(options: Partial<RegistryOptions> = {}): Promise<World> {
  const directory = await temporaryDirectory();
  const root = join(directory.path, "data");
  const start = (more: Partial<RegistryOptions> = {}) =>
    startRegistry({ storage: { kind: "filesystem", root }, ...options, ...more });
  let registry = await start();
  const token = await registry.createToken({ name: "test" });
  return {
    get registry() {
      return registry;
    },
    get client() {
      return new Client(registry.url, token);
    },
    root,
    clientWith: async (...scopes) =>
      new Client(registry.url, await registry.createToken({ name: "scoped", scopes })),
    restart: async (more) => {
      await registry.stop();
      registry = await start(more);
    },
    [Symbol.asyncDispose]: async () => {
      await registry.stop();
      await directory[Symbol.asyncDispose]();
    },
  };
}
