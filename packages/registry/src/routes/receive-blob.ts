/** A blob whose digest is known before its content comes. */
import type { Exchange } from "../http/exchange.ts";
import { algorithmOf, digestOf, type Digest, type RepositoryName } from "../names.ts";
import { ociFault } from "../oci-fault.ts";
import type { Services } from "../services.ts";
import type { UploadSession } from "../uploads/upload-session.ts";

/** Up to this size a body is held in memory and committed without a file of its own before. */
const smallBytes = 1024 * 1024;

interface Target {
  readonly name: RepositoryName;
  readonly digest: Digest;
}

export function isSmall(exchange: Exchange): boolean {
  const length = exchange.contentLength;
  return length !== undefined && length <= smallBytes;
}

/** Takes the request's body as that blob. Nothing is stored when the content is not what the digest says. */
export async function receiveBlob(exchange: Exchange, target: Target, services: Services): Promise<void> {
  if (isSmall(exchange)) {
    await receiveSmall(exchange, target, services);
    return;
  }
  const session = services.uploads.begin(target.name);
  try {
    await appendTo(session, exchange, { services, digest: target.digest });
  } catch (error) {
    await services.uploads.cancel(session);
    throw error;
  }
  await commitSession(session, target.digest, services);
}

async function receiveSmall(exchange: Exchange, { name, digest }: Target, services: Services): Promise<void> {
  const content = await exchange.readBody(Math.min(smallBytes, services.limits.maxBlobBytes));
  const actual = digestOf(content, algorithmOf(digest));
  if (actual !== digest)
    throw ociFault("DIGEST_INVALID", `the uploaded content has digest ${actual}, not ${digest}`);
  await services.blobs.commitBytes(name, digest, content);
  services.metrics.noteBytes("in", content.length);
}

interface AppendRequest {
  readonly services: Services;
  readonly digest?: Digest;
  readonly assertFollows?: () => void;
}

export async function appendTo(
  session: UploadSession,
  exchange: Exchange,
  { services, digest, assertFollows = () => undefined }: AppendRequest,
): Promise<void> {
  const { maxBlobBytes } = services.limits;
  await services.blobs.assertRoom(session.name, session.sizeBytes + (exchange.contentLength ?? 0), digest);
  if (session.sizeBytes + (exchange.contentLength ?? 0) > maxBlobBytes)
    throw ociFault("SIZE_INVALID", `the blob is larger than the limit of ${maxBlobBytes} bytes`, {
      as: "tooLarge",
    });
  await session.append(exchange.bulkBody(), {
    maxBytes: maxBlobBytes,
    assertFollows,
    ...(digest === undefined ? {} : { algorithm: algorithmOf(digest) }),
  });
}

/** Ends the session: its content becomes the blob, or, when it is not what the digest says, nothing. */
export async function commitSession(
  session: UploadSession,
  digest: Digest,
  services: Services,
): Promise<void> {
  services.uploads.forget(session);
  const file = await session.finish(digest);
  await services.blobs.commitFile(session.name, digest, file);
  services.metrics.noteBytes("in", file.sizeBytes);
}

export function answerCommitted(exchange: Exchange, { name, digest }: Target): void {
  exchange.send(201, { location: `/v2/${name}/blobs/${digest}`, "docker-content-digest": digest });
}
