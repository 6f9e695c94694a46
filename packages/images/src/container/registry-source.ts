/**
 * Images out of real registries. A reference without a host belongs to the configured registry; without one of those it
 * means what it means to other container tools: Docker Hub.
 */
import { Readable } from "node:stream";
import {
  defaultTag,
  formatImageReference,
  manifestAnnotation,
  tryParseImageReference,
  type Descriptor,
  type RegistryReference,
} from "@cocoon/contract";
import { Fault, type Abortable } from "@cocoon/core";
import {
  openRegistry,
  resolveManifest,
  type ConnectionGuard,
  type CredentialSource,
  type Registry,
  type Repository,
} from "@cocoon/oci";
import { assertHostAllowed, guardedLookup, type ImagePolicy } from "../image-policy.ts";
import type { ImageSource, SourceBlob, SourceImage } from "../image-source.ts";
import { readManifestSource } from "./image-manifest.ts";

export interface RegistrySourceOptions {
  /** The configured registry; stays the caller's. */
  readonly registry?: Registry;
  /** For registries that a reference names by itself. */
  readonly credentials?: CredentialSource;
  readonly ca?: string;
  /** Where registries that a reference names by itself may be. Absent: anywhere. */
  readonly policy?: ImagePolicy;
}

const dockerHub = "docker.io";
/** Where Docker Hub's registry really answers. */
const dockerHubAddress = "registry-1.docker.io";

export class RegistrySource implements ImageSource, AsyncDisposable {
  readonly #options: RegistrySourceOptions;
  readonly #opened = new Map<string, Registry>();

  constructor(options: RegistrySourceOptions) {
    this.#options = options;
  }

  normalise(ref: string): string {
    return formatImageReference(this.#complete(ref));
  }

  async open(ref: string, options: Abortable): Promise<SourceImage> {
    const reference = this.#complete(ref);
    const repository = this.#repository(reference);
    const stored = await resolveManifest(
      repository,
      reference.digest ?? reference.tag ?? defaultTag,
      options,
    );
    const reader = {
      blob: (layer: Descriptor) => openBlob(repository, layer),
      read: (blob: Descriptor) => repository.readBlob({ digest: blob.digest, size: blob.size }, options),
    };
    return readManifestSource(stored, reader);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const registry of this.#opened.values()) await registry[Symbol.asyncDispose]();
    this.#opened.clear();
  }

  #complete(ref: string): RegistryReference {
    const reference = tryParseImageReference(ref);
    if (reference?.kind !== "registry") {
      throw new Fault(
        "invalid",
        `"${ref.slice(0, 300)}" is no image reference: write [host/]repository[:tag]`,
      );
    }
    const { registry, repository, digest } = reference;
    const version = digest ? { digest } : { tag: reference.tag ?? defaultTag };
    const own = this.#options.registry;
    if (registry === undefined && own) {
      return {
        kind: "registry",
        registry: own.address.host,
        repository: own.fullName(repository),
        ...version,
      };
    }
    const host = registry ?? dockerHub;
    const isOfficial = host === dockerHub && !repository.includes("/");
    return {
      kind: "registry",
      registry: host,
      repository: isOfficial ? `library/${repository}` : repository,
      ...version,
    };
  }

  #repository({ registry: host = dockerHub, repository }: RegistryReference): Repository {
    const own = this.#options.registry;
    if (own && host === own.address.host) {
      // What is complete carries the registry's own prefix already; below it, it would be added once more.
      const { prefix } = own.address;
      if (prefix === "") return own.repository(repository);
      if (repository.startsWith(`${prefix}/`)) return own.repository(repository.slice(prefix.length + 1));
    }
    return this.#registry(host).repository(repository);
  }

  #registry(host: string): Registry {
    const known = this.#opened.get(host);
    if (known) return known;
    const { credentials, ca, policy } = this.#options;
    const isOwn = host === this.#options.registry?.address.host;
    const made = openRegistry({
      address: host === dockerHub ? dockerHubAddress : host,
      ...(credentials ? { credentials } : {}),
      ...(ca === undefined ? {} : { ca }),
      ...(policy && !isOwn ? { guard: createGuard(policy) } : {}),
    });
    this.#opened.set(host, made);
    return made;
  }
}

function createGuard(policy: ImagePolicy): ConnectionGuard {
  return { assertAllowed: (url) => assertHostAllowed(url, policy), lookup: guardedLookup(policy) };
}

function openBlob(repository: Repository, layer: Descriptor): SourceBlob {
  const { digest, size, mediaType: type, annotations } = layer;
  const title = annotations?.[manifestAnnotation.title];
  return {
    digest,
    sizeBytes: size,
    mediaType: type,
    ...(title === undefined ? {} : { title }),
    open: (options) =>
      Promise.resolve(Readable.from(buffers(repository.openBlob({ digest, size }, options)))),
  };
}

async function* buffers(pieces: AsyncIterable<Uint8Array>): AsyncGenerator<Buffer> {
  for await (const piece of pieces) yield Buffer.from(piece.buffer, piece.byteOffset, piece.byteLength);
}
