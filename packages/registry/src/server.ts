/** A registry with a lifetime: storage, services, one HTTP listener. */
import { randomBytes } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Fault, silentLogger, startHttpServer, type Logger } from "@cocoon/core";
import { administration, tryReadScope, type Scope } from "./auth/access.ts";
import { Authenticator } from "./auth/authenticator.ts";
import { TokenStore } from "./auth/token-store.ts";
import { BlobStore } from "./content/blob-store.ts";
import { KeyedLock } from "./content/keyed-lock.ts";
import { ManifestStore } from "./content/manifest-store.ts";
import { SweepGate } from "./content/sweep-gate.ts";
import { dispatch } from "./http/dispatch.ts";
import type { RepositoryName } from "./names.ts";
import type { Limits, Services } from "./services.ts";
import { openFilesystemStorage } from "./storage/filesystem.ts";
import { layout } from "./storage/layout.ts";
import { openMemoryStorage } from "./storage/memory.ts";
import type { Storage } from "./storage/storage.ts";
import { openUploadSpool } from "./uploads/upload-spool.ts";

export type StorageOptions =
  | { readonly kind: "memory" }
  | { readonly kind: "filesystem"; readonly root: string };

export interface RegistryOptions {
  readonly storage: StorageOptions;
  /** Default 127.0.0.1. */
  readonly host?: string;
  /** Default 0: any free port. */
  readonly port?: number;
  readonly log?: Logger;
  /** Where uploads grow; default beside the storage, or the system's temporary directory. */
  readonly uploadDirectory?: string;
  readonly limits?: Partial<Limits>;
  readonly staticToken?: string;
  readonly anonymousPull?: boolean;
  readonly epochCompat?: boolean;
  readonly publicUrl?: string;
  readonly uploadIdleMs?: number;
  /** How long a blob that no manifest names is kept. */
  readonly leaseMs?: number;
}

export interface TokenRequest {
  readonly name: string;
  /** `repository:<pattern>:pull,push,delete`, `registry:catalog:*` or `admin`. Default: `admin`. */
  readonly scopes?: readonly string[];
  readonly lifetimeMs?: number;
}

export interface RunningRegistry extends AsyncDisposable {
  readonly url: string;
  readonly host: string;
  readonly port: number;
  /** Makes a token and returns its text, which is kept nowhere else. */
  createToken(request: TokenRequest): Promise<string>;
  /** Lets open requests finish, then ends. May be repeated. */
  stop(): Promise<void>;
}

const defaults = {
  limits: { maxBlobBytes: 2 ** 40, maxManifestBytes: 50 * 2 ** 20 },
  uploadIdleMs: 24 * 3_600_000,
  leaseMs: 24 * 3_600_000,
};

export async function startRegistry(options: RegistryOptions): Promise<RunningRegistry> {
  await using stack = new AsyncDisposableStack();
  const storage = stack.use(await openStorage(options.storage));
  const services = await openServices(storage, options, stack);
  const server = stack.use(
    await startHttpServer({
      name: "registry",
      host: options.host ?? "127.0.0.1",
      port: options.port ?? 0,
      handler: (request, response) => {
        void dispatch(services, { request, response, expectsContinue: false });
      },
    }),
  );
  server.server.requestTimeout = 0; // a large blob over a thin line takes hours
  server.server.on("checkContinue", (request: IncomingMessage, response: ServerResponse) => {
    void dispatch(services, { request, response, expectsContinue: true });
  });
  const running = stack.move();
  const stop = () => running.disposeAsync();
  return {
    url: server.url,
    host: server.host,
    port: server.port,
    createToken: (request) => createToken(services.tokens, request),
    stop,
    [Symbol.asyncDispose]: stop,
  };
}

async function openStorage(options: StorageOptions): Promise<Storage> {
  return options.kind === "memory" ? openMemoryStorage() : openFilesystemStorage(options.root);
}

async function openServices(
  storage: Storage,
  options: RegistryOptions,
  stack: AsyncDisposableStack,
): Promise<Services> {
  const log = options.log ?? silentLogger;
  const secret = await ensureSecret(storage);
  const gate = new SweepGate();
  const blobs = new BlobStore({ storage, gate, leaseMs: options.leaseMs ?? defaults.leaseMs });
  const repositories = new KeyedLock<RepositoryName>();
  const uploads = stack.use(
    await openUploadSpool({
      directory:
        options.uploadDirectory ??
        storage.localUploadDirectory ??
        join(tmpdir(), `epoch-uploads-${process.pid}`),
      secret,
      idleMs: options.uploadIdleMs ?? defaults.uploadIdleMs,
    }),
  );
  const tokens = await TokenStore.open(storage);
  const auth = new Authenticator({
    tokens,
    secret,
    staticToken: options.staticToken,
    anonymousPull: (options.anonymousPull ?? false) || (options.epochCompat ?? false),
    echoTokens: options.epochCompat ?? false,
    log,
  });
  return {
    log,
    limits: { ...defaults.limits, ...options.limits },
    storage,
    blobs,
    manifests: new ManifestStore({ storage, blobs, gate, repositories }),
    uploads,
    auth,
    tokens,
    publicUrl: options.publicUrl,
    epochCompat: options.epochCompat ?? false,
  };
}

/** Signs session names and access tokens; made once, and kept with the content so that both survive a restart. */
async function ensureSecret(storage: Storage): Promise<Uint8Array> {
  const known = await storage.get(layout.secret);
  if (known?.length === 32) return known;
  if (known)
    throw new Fault(
      "internal",
      `${storage.description}: the server's secret is damaged (${known.length} bytes)`,
    );
  const secret = randomBytes(32);
  await storage.put(layout.secret, secret);
  return secret;
}

async function createToken(tokens: TokenStore, { name, scopes, lifetimeMs }: TokenRequest): Promise<string> {
  const created = await tokens.create({
    name,
    scopes: scopes?.map(readScope) ?? administration,
    createdBy: "",
    lifetimeMs,
  });
  return created.text;
}

function readScope(text: string): Scope {
  const scope = tryReadScope(text);
  if (!scope)
    throw new Fault(
      "invalid",
      `scope "${text}" is unknown; use repository:<pattern>:pull,push,delete, registry:catalog:* or admin`,
    );
  return scope;
}
