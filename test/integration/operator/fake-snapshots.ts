/** Snapshots of fake machines: a manifest that carries the machine's counter, and nothing else. */
import { manifestAnnotation, mediaType } from "@cocoon/contract";
import { isFault } from "@cocoon/core";
import type { Repository } from "@cocoon/oci";

export interface Copy {
  readonly digest: string;
  readonly counter: number;
}

export interface NewCopy {
  readonly tag: string;
  readonly counter: number;
  readonly signal: AbortSignal;
}

const emptyConfig = Buffer.from("{}");
const config = {
  mediaType: mediaType.snapshotConfig,
  digest: "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a",
  size: emptyConfig.length,
};

/** Returns its digest. */
export async function pushCopy(repository: Repository, { tag, counter, signal }: NewCopy): Promise<string> {
  const manifest = {
    schemaVersion: 2,
    mediaType: mediaType.ociManifest,
    artifactType: mediaType.snapshotV1,
    config,
    layers: [],
    annotations: { [manifestAnnotation.created]: new Date().toISOString(), counter: String(counter), tag },
  };
  const { digest, size } = config;
  await repository.putBlob({ digest, size, open: () => once() }, { signal });
  const body = { bytes: Buffer.from(JSON.stringify(manifest)), mediaType: mediaType.ociManifest };
  return repository.putManifest(tag, body, { signal });
}

export async function findCopy(
  repository: Repository,
  tag: string,
  signal: AbortSignal,
): Promise<Copy | undefined> {
  try {
    const { digest, bytes } = await repository.getManifest(tag, { signal });
    const { annotations } = JSON.parse(Buffer.from(bytes).toString("utf8")) as {
      readonly annotations: Readonly<Record<string, string>>;
    };
    return { digest, counter: Number(annotations["counter"]) };
  } catch (error) {
    if (isFault(error, "notFound")) return undefined;
    throw error;
  }
}

async function* once(): AsyncGenerator<Uint8Array> {
  yield await Promise.resolve(emptyConfig);
}
