/**
 * Objects in an S3 bucket. A single PUT is atomic and durable by the service's own promise; large files go up in parts
 * of which nothing is visible before all are there. Uploads in progress stay on local disk until they are complete.
 */
import { randomBytes } from "node:crypto";
import { rm, stat } from "node:fs/promises";
import {
  AbortMultipartUploadCommand,
  CopyObjectCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListMultipartUploadsCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  S3Client,
  S3ServiceException,
} from "@aws-sdk/client-s3";
import { Fault, getErrorMessage } from "@cocoon/core";
import { layout, type StorageKey } from "./layout.ts";
import { copyObjectTo } from "./s3-copy.ts";
import type { S3Options } from "./open-storage.ts";
import { uploadFile } from "./s3-upload.ts";
import type { LocalFile, ObjectInfo, OpenObject, Storage, VersionedObject } from "./storage.ts";

export async function openS3Storage(options: S3Options): Promise<Storage> {
  const storage = new S3Storage(options);
  await storage.check();
  return storage;
}

class S3Storage implements Storage {
  readonly description: string;
  readonly isShared = true;
  readonly localUploadDirectory = undefined;
  readonly #client: S3Client;
  readonly #bucket: string;
  readonly #prefix: string;

  constructor(options: S3Options) {
    this.description = `bucket ${options.bucket} at ${options.endpoint}, prefix "${options.prefix}"`;
    this.#bucket = options.bucket;
    this.#prefix = options.prefix;
    this.#client = new S3Client({
      endpoint: options.endpoint,
      region: options.region,
      forcePathStyle: true,
      credentials: { accessKeyId: options.accessKey, secretAccessKey: options.secretKey },
      maxAttempts: 4,
      // Services other than Amazon's do not know the newer checksums; what matters is checked by digest.
      requestChecksumCalculation: "WHEN_REQUIRED",
      responseChecksumValidation: "WHEN_REQUIRED",
      requestHandler: {
        connectionTimeout: 5_000,
        requestTimeout: 60_000,
        httpAgent: { maxSockets: 64 },
        httpsAgent: { maxSockets: 64 },
      },
    });
  }

  async get(key: StorageKey): Promise<Buffer | undefined> {
    const found = await this.#ifThere(this.#client.send(new GetObjectCommand(this.#at(key))));
    return found && Buffer.from((await found.Body?.transformToByteArray()) ?? []);
  }

  async stat(key: StorageKey): Promise<ObjectInfo | undefined> {
    const found = await this.#ifThere(this.#client.send(new HeadObjectCommand(this.#at(key))));
    return (
      found && { key, sizeBytes: found.ContentLength ?? 0, modifiedAtMs: found.LastModified?.getTime() ?? 0 }
    );
  }

  async open(key: StorageKey): Promise<OpenObject | undefined> {
    const info = await this.stat(key);
    if (!info) return undefined;
    return {
      sizeBytes: info.sizeBytes,
      copyTo: (sink, options) =>
        this.#send(copyObjectTo({ client: this.#client, object: this.#at(key) }, sink, options)),
      readAll: async () => {
        const content = await this.get(key);
        if (!content) throw new Fault("notFound", `${key} was deleted meanwhile`);
        return content;
      },
      [Symbol.asyncDispose]: () => Promise.resolve(),
    };
  }

  async put(key: StorageKey, content: Uint8Array): Promise<void> {
    const type = { ContentType: "application/octet-stream", ContentLength: content.length };
    await this.#send(this.#client.send(new PutObjectCommand({ ...this.#at(key), ...type, Body: content })));
  }

  async putIf(
    key: StorageKey,
    content: Uint8Array,
    version: string | undefined,
  ): Promise<string | undefined> {
    const condition = version === undefined ? { IfNoneMatch: "*" } : { IfMatch: version };
    const command = new PutObjectCommand({
      ...this.#at(key),
      ...condition,
      ContentType: "application/octet-stream",
      ContentLength: content.length,
      Body: content,
    });
    try {
      return (await this.#client.send(command)).ETag;
    } catch (error) {
      if (isConditionFailure(error)) return undefined;
      throw this.#toFault(error);
    }
  }

  async getVersioned(key: StorageKey): Promise<VersionedObject | undefined> {
    const found = await this.#ifThere(this.#client.send(new GetObjectCommand(this.#at(key))));
    if (!found) return undefined;
    const content = Buffer.from((await found.Body?.transformToByteArray()) ?? []);
    return { content, version: found.ETag ?? "", modifiedAtMs: found.LastModified?.getTime() ?? 0 };
  }

  async putFile(key: StorageKey, file: LocalFile): Promise<void> {
    const { size } = await stat(file.path);
    if (size !== file.sizeBytes)
      throw new Fault("internal", `${file.path} has ${size} bytes, not ${file.sizeBytes}`);
    await this.#send(uploadFile({ client: this.#client, object: this.#at(key) }, file));
    await rm(file.path, { force: true });
  }

  async touch(key: StorageKey): Promise<boolean> {
    const at = this.#at(key);
    const found = await this.#ifThere(this.#client.send(new HeadObjectCommand(at)));
    if (!found) return false;
    if (found.ContentLength === 0) {
      await this.put(key, new Uint8Array());
      return true;
    }
    const source = encodeURIComponent(`${this.#bucket}/${at.Key}`);
    const copy = new CopyObjectCommand({
      ...at,
      CopySource: source,
      MetadataDirective: "REPLACE",
      Metadata: { touched: String(Date.now()) },
    });
    return (await this.#ifThere(this.#client.send(copy))) !== undefined;
  }

  async delete(key: StorageKey): Promise<boolean> {
    if (!(await this.stat(key))) return false; // S3 itself does not say whether there was one
    await this.#ifThere(this.#client.send(new DeleteObjectCommand(this.#at(key))));
    return true;
  }

  async *list(prefix: string): AsyncIterable<ObjectInfo> {
    for await (const page of this.#pages(prefix, undefined))
      for (const { Key = "", Size = 0, LastModified } of page.Contents ?? []) {
        const key = Key.slice(this.#prefix.length) as StorageKey;
        if (!key.endsWith("/")) yield { key, sizeBytes: Size, modifiedAtMs: LastModified?.getTime() ?? 0 };
      }
  }

  async *listNames(prefix: string): AsyncIterable<string> {
    const start = this.#prefix.length + prefix.length;
    for await (const page of this.#pages(prefix, "/")) {
      for (const { Prefix = "" } of page.CommonPrefixes ?? []) yield Prefix.slice(start, -1);
      for (const { Key = "" } of page.Contents ?? []) if (Key.length > start) yield Key.slice(start);
    }
  }

  async listPage(prefix: string, { after, limit }: { after: string; limit: number }): Promise<string[]> {
    const names: string[] = [];
    const full = `${this.#prefix}${prefix}`;
    let StartAfter = `${full}${after}`;
    while (names.length < limit) {
      const MaxKeys = Math.min(1_000, limit - names.length);
      const command = new ListObjectsV2Command({ Bucket: this.#bucket, Prefix: full, StartAfter, MaxKeys });
      const page = await this.#send(this.#client.send(command));
      for (const { Key = "" } of page.Contents ?? []) {
        StartAfter = Key;
        const name = Key.slice(full.length);
        if (name !== "" && !name.includes("/")) names.push(name);
      }
      if (!page.IsTruncated) break;
    }
    return names;
  }

  async *#pages(prefix: string, Delimiter: string | undefined) {
    const base = {
      Bucket: this.#bucket,
      Prefix: `${this.#prefix}${prefix}`,
      ...(Delimiter ? { Delimiter } : {}),
    };
    let token: string | undefined;
    do {
      const command = new ListObjectsV2Command({ ...base, ...(token ? { ContinuationToken: token } : {}) });
      const page = await this.#send(this.#client.send(command));
      yield page;
      token = page.IsTruncated ? page.NextContinuationToken : undefined;
    } while (token !== undefined);
  }

  async now(): Promise<number> {
    await this.put(layout.clock, new Uint8Array());
    const info = await this.stat(layout.clock);
    if (!info) throw new Fault("unavailable", `${this.description}: the clock object vanished`);
    return info.modifiedAtMs;
  }

  async sweepUnfinished(olderThanMs: number): Promise<number> {
    const nowMs = await this.now();
    const where = { Bucket: this.#bucket };
    const found = await this.#send(
      this.#client.send(new ListMultipartUploadsCommand({ ...where, Prefix: this.#prefix })),
    );
    const old = (found.Uploads ?? []).filter(
      ({ Initiated }) => nowMs - (Initiated?.getTime() ?? nowMs) >= olderThanMs,
    );
    for (const { Key, UploadId } of old)
      await this.#ifThere(this.#client.send(new AbortMultipartUploadCommand({ ...where, Key, UploadId })));
    return old.length;
  }

  async check(): Promise<void> {
    const content = randomBytes(16);
    const key = layout.probe(content.toString("hex"));
    await this.put(key, content);
    const back = await this.get(key);
    await this.delete(key);
    if (!back?.equals(content))
      throw new Fault("unavailable", `${this.description}: a probe was not read back as written`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#client.destroy();
  }

  #at(key: StorageKey): { Bucket: string; Key: string } {
    return { Bucket: this.#bucket, Key: `${this.#prefix}${key}` };
  }

  async #ifThere<T>(answer: Promise<T>): Promise<T | undefined> {
    try {
      return await answer;
    } catch (error) {
      if (isNotFound(error)) return undefined;
      throw this.#toFault(error);
    }
  }

  async #send<T>(answer: Promise<T>): Promise<T> {
    try {
      return await answer;
    } catch (error) {
      throw this.#toFault(error);
    }
  }

  /** Any answer but 404 says nothing about existence: it is unavailable, never not found. */
  #toFault(error: unknown): Fault {
    if (error instanceof Fault) return error;
    return new Fault("unavailable", `${this.description}: ${getErrorMessage(error)}`, { cause: error });
  }
}

/** The object is not as expected, or another writer is changing it. */
function isConditionFailure(error: unknown): boolean {
  if (!(error instanceof S3ServiceException)) return false;
  const { httpStatusCode } = error.$metadata;
  return httpStatusCode === 412 || httpStatusCode === 409 || error.name === "NoSuchKey";
}

/** A missing bucket is a 404 too, but nothing that an object could be missing from. */
function isNotFound(error: unknown): boolean {
  if (!(error instanceof S3ServiceException) || error.name === "NoSuchBucket") return false;
  return error.name === "NotFound" || error.name === "NoSuchKey" || error.name === "NoSuchUpload";
}
