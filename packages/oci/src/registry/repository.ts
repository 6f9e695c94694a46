/**
 * One repository of a registry: manifests, tags, blobs. Absent is an answer (`undefined`, `false`, `notFound`);
 * everything that kept us from asking is a Fault with another code.
 */
import { mediaType } from "@cocoon/contract";
import { Fault, type Abortable, ignoreFault } from "@cocoon/core";
import { assertDigest, computeDigest, readDigest, tryReadDigest } from "../digest.ts";
import { downloadBlob, type BlobPart, type BlobSource } from "./blob-download.ts";
import { uploadBlob, type BlobContent, type UploadOptions, type UploadTarget } from "./blob-upload.ts";
import { listPages, tagPage } from "./listing.ts";
import { describe, type Transport } from "./transport.ts";
import { readFault, getHeader, readBody, readError, type WireRequest, type WireResponse } from "./wire.ts";

export interface ManifestHead {
  readonly digest: string;
  readonly mediaType: string;
  readonly size: number;
}

export interface StoredManifest extends ManifestHead {
  /** Exactly as stored: the digest is over these. */
  readonly bytes: Buffer;
}

export interface RegistryCheck extends Abortable {
  /** Send a request even when the registry answered an earlier one. */
  readonly now?: boolean;
}

interface RepositoryOptions {
  readonly transport: Transport;
  /** `…/v2/<name>/` */
  readonly base: URL;
  /** Name in the registry, its prefix included. */
  readonly name: string;
  /** Throws unless a registry answers at that address; an answer is remembered unless `now` is set. */
  readonly assertRegistry: (options: RegistryCheck) => Promise<void>;
}

/** Above what any registry must accept (4 MB), below what could hurt. */
const manifestLimitBytes = 16 * 1024 * 1024;

/** MANIFEST_UNKNOWN, NAME_UNKNOWN, BLOB_UNKNOWN; some registries say NOT_FOUND. */
const absenceCodes = /UNKNOWN$|^NOT_FOUND$/;

const manifestTypes = [
  mediaType.ociManifest,
  mediaType.ociIndex,
  mediaType.dockerManifest,
  mediaType.dockerManifestList,
].join(", ");

type PutOutcome = "existed" | "sent";

interface PutBlobOptions extends UploadOptions {
  /** The caller knows that the blob is new: do not ask first. */
  readonly assumeAbsent?: boolean;
}

export class Repository {
  readonly name: string;
  /** Scheme, host and port of the registry: blobs can be mounted between repositories of one origin. */
  readonly origin: string;
  readonly #options: RepositoryOptions;

  constructor(options: RepositoryOptions) {
    this.name = options.name;
    this.origin = options.base.origin;
    this.#options = options;
  }

  /** What the tag or digest names now; undefined when it surely names nothing. */
  async headManifest(reference: string, { signal }: Abortable): Promise<ManifestHead | undefined> {
    const request = this.#manifestRequest("HEAD", reference);
    const response = await this.#send(request, signal);
    await response.body.dump();
    if (response.status !== 200 && response.status !== 404)
      throw await readFault(response, describe(request));
    const digest = getHeader(response, "docker-content-digest");
    const size = Number(getHeader(response, "content-length"));
    const type = getHeader(response, "content-type");
    const complete = digest && tryReadDigest(digest) && type && Number.isSafeInteger(size) && size > 0;
    if (response.status === 200 && complete) return { digest, mediaType: withoutParameters(type), size };
    // A HEAD without a digest, and a 404, which has no body and so no proof: GET decides.
    const found = await ignoreFault("notFound", this.getManifest(reference, { signal }));
    return found && { digest: found.digest, mediaType: found.mediaType, size: found.size };
  }

  /** The manifest, checked against its digest. `notFound` when it surely is not there. */
  async getManifest(reference: string, { signal }: Abortable): Promise<StoredManifest> {
    const request = this.#manifestRequest("GET", reference);
    const response = await this.#send(request, signal);
    if (response.status === 404) throw await this.#absence(response, request, signal);
    if (response.status !== 200) throw await readFault(response, describe(request));
    const bytes = await readBody(response, manifestLimitBytes);
    const announced = getHeader(response, "docker-content-digest");
    const digest = tryReadDigest(reference) ? reference : (announced ?? computeDigest(bytes));
    assertDigest(bytes, digest, `manifest ${this.name}:${reference}`);
    const type = withoutParameters(getHeader(response, "content-type") ?? "");
    return { digest, mediaType: type, size: bytes.length, bytes };
  }

  /**
   * Stores the bytes as they are under a tag or under their own digest; returns the digest. `damaged` when the registry
   * does not hold what the manifest refers to.
   */
  async putManifest(
    reference: string,
    manifest: { readonly bytes: Uint8Array; readonly mediaType: string },
    { signal }: Abortable,
  ): Promise<string> {
    const request: WireRequest = {
      ...this.#manifestRequest("PUT", reference),
      headers: { "content-type": manifest.mediaType },
      body: manifest.bytes,
    };
    const response = await this.#send(request, signal);
    if (response.status !== 201) {
      const { fault, ociCodes } = await readError(response, describe(request));
      throw ociCodes.includes("MANIFEST_BLOB_UNKNOWN") ? new Fault("damaged", fault.message) : fault;
    }
    await response.body.dump();
    const digest = tryReadDigest(reference) ? reference : computeDigest(manifest.bytes);
    const said = getHeader(response, "docker-content-digest");
    if (said !== undefined && said !== digest)
      throw new Fault("internal", `${describe(request)}: the registry stored ${said} instead of ${digest}`);
    return digest;
  }

  /**
   * Removes a tag, or a manifest with every tag on it. True when it was there. May be repeated by digest. A tag is
   * not tried again by itself when the outcome is unknown: it may name something newer by then.
   */
  async deleteManifest(reference: string, { signal }: Abortable): Promise<boolean> {
    const request = {
      ...this.#manifestRequest("DELETE", reference),
      repeatable: tryReadDigest(reference) !== undefined,
    };
    const response = await this.#send(request, signal);
    if (response.status === 404) {
      await this.#assertAbsent(response, request, signal);
      return false;
    }
    if (![200, 202, 204].includes(response.status)) throw await readFault(response, describe(request));
    await response.body.dump();
    return true;
  }

  /** The blob's size; undefined when it surely is not in this repository. */
  async headBlob(digest: string, { signal }: Abortable): Promise<{ readonly size: number } | undefined> {
    const request = this.#blobRequest("HEAD", digest);
    const response = await this.#send(request, signal);
    await response.body.dump();
    if (response.status === 404) {
      // Believed without a body: a blob that is taken for absent is sent once more, and nothing is lost.
      await this.#options.assertRegistry({ signal });
      return undefined;
    }
    if (response.status !== 200) throw await readFault(response, describe(request));
    return { size: Number(getHeader(response, "content-length") ?? Number.NaN) };
  }

  /** Streams a blob or a part of it; a whole blob is checked against its digest by the end of the loop. */
  openBlob(part: BlobPart, options: Abortable): AsyncGenerator<Uint8Array, void, undefined> {
    const request = this.#blobRequest("GET", part.digest);
    const source: BlobSource = {
      transport: this.#options.transport,
      url: request.url,
      scopes: request.scopes,
    };
    return downloadBlob(source, part, options);
  }

  /** A whole small blob, checked, or a small part of one. */
  async readBlob(blob: BlobPart, options: Abortable): Promise<Buffer> {
    const pieces: Uint8Array[] = [];
    for await (const piece of this.openBlob(blob, options)) pieces.push(piece);
    return Buffer.concat(pieces);
  }

  /** Makes sure that the blob is there, by the cheapest way that works. May be repeated. */
  async putBlob(content: BlobContent, options: PutBlobOptions): Promise<PutOutcome> {
    const { digest } = content;
    if (!options.assumeAbsent && (await this.headBlob(digest, options))) return "existed";
    const target: UploadTarget = {
      transport: this.#options.transport,
      uploads: this.#url("blobs/uploads/"),
      scopes: [this.#scope("pull,push")],
      exists: async (each) => (await this.headBlob(digest, each)) !== undefined,
    };
    await uploadBlob(target, content, options);
    return "sent";
  }

  /** Takes a blob over from another repository of the registry. False when the registry would not. */
  async mountBlob(
    { digest, from }: { readonly digest: string; readonly from: string },
    { signal }: Abortable,
  ): Promise<boolean> {
    const url = this.#url("blobs/uploads/");
    url.search = new URLSearchParams({ mount: digest, from }).toString();
    const request: WireRequest = {
      method: "POST",
      url,
      headers: { "content-length": "0" },
      scopes: [this.#scope("pull,push"), `repository:${from}:pull`],
      repeatable: true,
    };
    const response = await this.#send(request, signal);
    if (response.status === 201) {
      await response.body.dump();
      return true;
    }
    if (response.status === 202) {
      await this.#cancelUpload(response, signal);
      return false;
    }
    const fault = await readFault(response, describe(request));
    // Not allowed to read there, or no mounting here: the blob has to be sent.
    if (["unauthorized", "forbidden", "notFound", "methodNotAllowed", "badRequest"].includes(fault.code))
      return false;
    throw fault;
  }

  /** All tags, page by page. A repository that does not exist has none. */
  tags(options: Abortable): AsyncGenerator<string, void, undefined> {
    const request: WireRequest = {
      method: "GET",
      url: this.#url("tags/list"),
      scopes: [this.#scope("pull")],
      repeatable: true,
    };
    const assertAbsent = (response: WireResponse) => this.#assertAbsent(response, request, options.signal);
    return listPages({ ...this.#options, request, read: tagPage, assertAbsent }, options);
  }

  async #cancelUpload(response: WireResponse, signal: AbortSignal): Promise<void> {
    await response.body.dump();
    const url = URL.parse(getHeader(response, "location") ?? "", response.url);
    if (!url) return;
    const request: WireRequest = {
      method: "DELETE",
      url,
      scopes: [this.#scope("pull,push")],
      repeatable: false,
    };
    const answer = await this.#send(request, signal);
    await answer.body.dump(); // a registry without cancelling drops the session in time
  }

  /**
   * What a 404 of a manifest or tag list proves. `notFound` needs an error body as the specification has it, from an
   * address at which a registry answers now; a proxy, an ingress or a wrong path answers 404 too, and that is
   * `unavailable`.
   */
  async #absence(response: WireResponse, request: WireRequest, signal: AbortSignal): Promise<Fault> {
    const { fault, ociCodes } = await readError(response, describe(request));
    if (!ociCodes.some((code) => absenceCodes.test(code)))
      return new Fault(
        "unavailable",
        `${fault.message} without an OCI error body, so nothing is known about the content; is there a proxy in front of the registry?`,
        { cause: fault },
      );
    await this.#options.assertRegistry({ signal, now: true });
    return fault;
  }

  async #assertAbsent(response: WireResponse, request: WireRequest, signal: AbortSignal): Promise<void> {
    const fault = await this.#absence(response, request, signal);
    if (fault.code !== "notFound") throw fault;
  }

  #send(request: WireRequest, signal: AbortSignal): Promise<WireResponse> {
    return this.#options.transport.send(request, { signal });
  }

  #manifestRequest(method: WireRequest["method"], reference: string): WireRequest {
    const actions = { PUT: "pull,push", DELETE: "delete,pull" }[method as string] ?? "pull";
    return {
      method,
      url: this.#url(`manifests/${encodeURIComponent(reference).replaceAll("%3A", ":")}`),
      headers: { accept: manifestTypes },
      scopes: [this.#scope(actions)],
      repeatable: true,
    };
  }

  #blobRequest(method: "GET" | "HEAD", digest: string): WireRequest {
    readDigest(digest);
    return { method, url: this.#url(`blobs/${digest}`), scopes: [this.#scope("pull")], repeatable: true };
  }

  #url(path: string): URL {
    return new URL(path, this.#options.base);
  }

  #scope(actions: string): string {
    return `repository:${this.name}:${actions}`;
  }
}

function withoutParameters(type: string): string {
  return type.split(";", 1)[0]?.trim() ?? "";
}
