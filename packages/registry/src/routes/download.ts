/** `/dl/<name>`: the artefact under tag `latest` as one stream, for tools that know nothing of registries. */
import { Writable } from "node:stream";
import { artifactKindOf, cloudImageDisk, latestTag, readCloudImageManifest } from "@cocoon/contract";
import { Fault } from "@cocoon/core";
import type { StoredManifest } from "../content/manifest-record.ts";
import type { Exchange } from "../http/exchange.ts";
import type { Handler, Methods } from "../http/handler.ts";
import { RunningDigest, algorithmOf, digest, type RepositoryName, type Tag } from "../names.ts";
import type { Services } from "../services.ts";

const download: Handler<"download"> = async (exchange, { name }, services) => {
  const stored = await services.manifests.resolve(name, latestTag as Tag);
  if (!stored) throw new Fault("notFound", "artifact not found");
  const kind = artifactKindOf(stored.manifest());
  if (kind === "cloud-image") await sendDisk(exchange, { name, stored }, services);
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
    const running = new RunningDigest(algorithmOf(wanted));
    await blob.copyTo(hashedOnTheWay(running, exchange.response), { signal: exchange.signal });
    // The receiver has no digest to check: a cut connection tells it that something is wrong.
    if (running.digest() !== wanted)
      throw new Fault("internal", `${name}: the content of ${wanted} is damaged`);
  }
  exchange.response.end();
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

export const downloadRoute: Methods<"download"> = { GET: download };
