/** `/dl/<name>`: the artefact under tag `latest` as one stream, for tools that know nothing of registries. */
import { PassThrough, Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { classifyManifest, cloudImageDisk, latestTag, readCloudImageManifest } from "@cocoon/contract";
import { Fault } from "@cocoon/core";
import { snapshotArchive, type BlobPart } from "@cocoon/oci";
import type { StoredManifest } from "../content/manifest-record.ts";
import type { Exchange } from "../http/exchange.ts";
import type { Handler, RouteTable } from "../http/handler.ts";
import { RunningDigest, getAlgorithm, digest, type RepositoryName, type Tag } from "../names.ts";
import type { Services } from "../open-services.ts";

const download: Handler<"download"> = async (exchange, { name }, services) => {
  const stored = await services.manifests.resolve(name, latestTag as Tag);
  if (!stored) throw new Fault("notFound", "artifact not found");
  const kind = classifyManifest(await stored.manifest());
  if (kind === "cloud-image") await sendDisk(exchange, { name, stored }, services);
  else if (kind === "snapshot") await sendArchive(exchange, { name, stored }, services);
  else
    throw new Fault(
      "methodNotAllowed",
      `${kind} cannot be downloaded this way; pull it with a registry client`,
    );
};

async function sendDisk(
  exchange: Exchange,
  { name, stored }: { name: RepositoryName; stored: StoredManifest },
  { blobs }: Services,
): Promise<void> {
  const manifest = readCloudImageManifest(JSON.parse(stored.bytes.toString("utf8")));
  const parts = cloudImageDisk(manifest);
  const length = parts.reduce((total, part) => total + part.size, 0);
  exchange.response.writeHead(200, { "content-type": "application/octet-stream", "content-length": length });
  for (const part of exchange.method === "HEAD" ? [] : parts) {
    const wanted = digest(part.digest);
    await using blob = await blobs.open(name, wanted);
    if (blob?.sizeBytes !== part.size)
      throw new Fault("internal", `${name}: ${wanted} is not there as announced`);
    const running = new RunningDigest(getAlgorithm(wanted));
    await blob.copyTo(hashedOnTheWay(running, exchange.response), { signal: exchange.signal });
    // The receiver has no digest to check: a cut connection tells it that something is wrong.
    if (running.digest() !== wanted)
      throw new Fault("internal", `${name}: the content of ${wanted} is damaged`);
  }
  exchange.response.end();
}

/** Without a length, as it is made on the way; what is damaged cuts the connection. */
async function sendArchive(
  exchange: Exchange,
  { name, stored }: { name: RepositoryName; stored: StoredManifest },
  { blobs }: Services,
): Promise<void> {
  const archive = snapshotArchive({
    manifest: stored.bytes,
    name,
    read: (part) => readBlob(blobs, { name, ...part }, exchange.signal),
  });
  const first = await archive.next(); // whatever cannot be understood is an answer of its own
  exchange.response.writeHead(200, { "content-type": "application/x-tar" });
  if (exchange.method === "HEAD" || first.done) {
    await archive.return();
    exchange.response.end();
    return;
  }
  exchange.response.write(first.value);
  await pipeline(archive, exchange.response);
}

async function* readBlob(
  blobs: Services["blobs"],
  part: BlobPart & { readonly name: RepositoryName },
  signal: AbortSignal,
): AsyncGenerator<Uint8Array, void, undefined> {
  const wanted = digest(part.digest);
  await using blob = await blobs.open(part.name, wanted);
  if (blob?.sizeBytes !== part.size)
    throw new Fault("internal", `${part.name}: ${wanted} is not there as announced`);
  const { offset: start = 0, length = part.size - (part.offset ?? 0) } = part;
  if (length === 0) return;
  const pieces = new PassThrough({ highWaterMark: 1024 * 1024 });
  // The storage uses its buffers again, so each piece is copied.
  const copies = new Writable({
    write: (chunk: Buffer, _encoding, done) => void pieces.write(Buffer.from(chunk), done),
    final: (done) => void pieces.end(done),
  });
  const range = { start, end: start + length - 1 };
  const copied = blob.copyTo(copies, { signal, range }).then(
    () => void copies.end(),
    (error: unknown) => void pieces.destroy(error instanceof Error ? error : new Error(String(error))),
  );
  try {
    yield* pieces as AsyncIterable<Buffer>;
  } finally {
    pieces.destroy();
    copies.destroy();
    await copied;
  }
}

/** Done with a chunk only when the target is: the storage uses its buffers again. */
function hashedOnTheWay(running: RunningDigest, target: Writable): Writable {
  return new Writable({
    write: (chunk: Buffer, _encoding, done) => {
      running.update(chunk);
      target.write(chunk, done);
    },
  });
}

export const downloadRoutes = {
  download: { GET: download },
} satisfies Partial<RouteTable>;
