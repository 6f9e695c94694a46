/** Bodies that become blobs: appended to an upload session, or whole in one request. */
import { isFault } from "@cocoon/core";
import type { Exchange } from "../http/exchange.ts";
import { computeDigest, getAlgorithm, type Digest, type RepositoryName } from "../names.ts";
import { ociFault } from "../oci-fault.ts";
import type { Services } from "../open-services.ts";
import type { SessionOwner, UploadSession } from "../uploads/upload-session.ts";

/** Up to this size a body is held in memory and stored without an upload file, while memory is not scarce. */
const smallBytes = 1024 * 1024;

interface Target {
  readonly name: RepositoryName;
  readonly digest: Digest;
}

export function isSmall(exchange: Exchange): boolean {
  const length = exchange.contentLength;
  return length !== undefined && length <= smallBytes && !exchange.memory.isScarce;
}

/** Stores the request's body as that blob. Nothing is stored when the content is not what the digest says. */
export async function receiveBlob(exchange: Exchange, target: Target, services: Services): Promise<void> {
  if (isSmall(exchange)) {
    const content = await readSmall(exchange, target, services);
    await storeSmall(target, content, services);
    return;
  }
  const session = await services.uploads.begin({ name: target.name, caller: exchange.callerId });
  try {
    await session.own(exchange.request, async (owner) => {
      await appendBody(exchange, { session, owner, services, digest: target.digest });
      await commitSession(session, { owner, digest: target.digest, services });
    });
  } finally {
    if (session.state === "open") await session.abort();
  }
}

export async function readSmall(exchange: Exchange, { digest }: Target, services: Services): Promise<Buffer> {
  const content = await exchange.readBody(Math.min(smallBytes, services.limits.maxBlobBytes));
  const actual = computeDigest(content, getAlgorithm(digest));
  if (actual !== digest)
    throw ociFault("DIGEST_INVALID", `the uploaded content has digest ${actual}, not ${digest}`);
  return content;
}

export async function storeSmall(
  { name, digest }: Target,
  content: Buffer,
  services: Services,
): Promise<void> {
  await services.blobs.commitBytes(name, digest, content);
  services.metrics.countBytes("in", content.length);
}

interface AppendRequest {
  readonly session: UploadSession;
  readonly owner: SessionOwner;
  readonly services: Services;
  readonly digest?: Digest;
  readonly exactBytes?: number | undefined;
}

/** Appends the request's body to the session, within the limits of a blob and of the repository's quota. */
export async function appendBody(
  exchange: Exchange,
  { session, owner, services, digest, exactBytes }: AppendRequest,
): Promise<void> {
  const { maxBlobBytes } = services.limits;
  const { name, sizeBytes } = session;
  const openBytes = services.uploads.countOpenBytes(name, session);
  const room = await services.blobs.findRoom(name, digest);
  const announced = sizeBytes + (exchange.contentLength ?? exactBytes ?? 0);
  room.assertFits(openBytes + announced);
  if (announced > maxBlobBytes)
    throw ociFault("SIZE_INVALID", `the blob is larger than the limit of ${maxBlobBytes} bytes`, {
      as: "tooLarge",
    });
  exchange.body();
  const maxBytes = Math.min(maxBlobBytes, room.freeBytes - openBytes);
  try {
    await owner.append({ maxBytes, exactBytes, ...(digest ? { algorithm: getAlgorithm(digest) } : {}) });
  } catch (error) {
    if (isFault(error, "tooLarge") && maxBytes < maxBlobBytes) room.assertFits(openBytes + maxBytes + 1);
    throw error;
  }
}

interface CommitRequest {
  readonly owner: SessionOwner;
  readonly digest: Digest;
  readonly services: Services;
}

/** Ends the session: its content becomes the blob, or is removed when it is not what the digest says. */
export async function commitSession(
  { name, sizeBytes }: UploadSession,
  { owner, digest, services }: CommitRequest,
): Promise<void> {
  await owner.commit(digest, (file) => services.blobs.commitFile(name, digest, file));
  services.metrics.countBytes("in", sizeBytes);
}

export function answerCommitted(exchange: Exchange, { name, digest }: Target): void {
  exchange.send(201, { location: `/v2/${name}/blobs/${digest}`, "docker-content-digest": digest });
}
