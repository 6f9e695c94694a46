/** The control API about repositories and tags, in epoch's shapes. Digests carry no `sha256:` here; that is epoch's way. */
import { hibernateTag, maxSnapshotConfigBytes } from "@cocoon/contract";
import { Fault } from "@cocoon/core";
import { allows } from "../auth/access.ts";
import type { Exchange } from "../http/exchange.ts";
import type { Handler, RouteTable } from "../http/handler.ts";
import type { Digest, RepositoryName } from "../names.ts";
import type { RepositoryView, TagView } from "../overview/overview.ts";
import type { Services } from "../open-services.ts";

const stats: Handler<"apiStats"> = async (exchange, _route, { overview }) => {
  const views = await visible(exchange, await overview.all());
  const digests = new Map(
    views.flatMap(({ tags }) => tags.map((tag) => [tag.digest, tag.totalSize] as const)),
  );
  const blobs = new Map(views.flatMap(({ tags }) => tags.flatMap((tag) => [...tag.blobs])));
  exchange.json(200, {
    repositoryCount: views.length,
    tagCount: views.reduce((total, { tags }) => total + tags.length, 0),
    blobCount: blobs.size,
    totalSize: [...digests.values()].reduce((total, size) => total + size, 0),
    // Ours: what is stored, each blob once.
    storedSize: [...blobs.values()].reduce((total, size) => total + size, 0),
  });
};

const list: Handler<"apiRepositories"> = async (exchange, _route, { overview, quota }) => {
  const shown = (await visible(exchange, await overview.all())).map((view) => {
    const quotaBytes = quota.findLimit(view.name);
    return { ...repositoryJson(view), ...(quotaBytes === undefined ? {} : { quotaBytes }) };
  });
  exchange.json(
    200,
    shown.sort((a, b) => (a.updatedAt < b.updatedAt ? 1 : -1)),
  );
};

const one: Handler<"apiRepository"> = async (exchange, { name }, { overview }) => {
  const view = await overview.one(name);
  if (!view) throw new Fault("notFound", "repository not found");
  exchange.json(200, repositoryJson(view));
};

const tags: Handler<"apiTags"> = async (exchange, { name }, { overview }) => {
  const view = await overview.one(name);
  exchange.json(
    200,
    (view?.tags ?? []).map((tag) => ({
      id: tag.id,
      repoName: name,
      name: tag.tag,
      ...commonTagJson(tag),
    })),
  );
};

const tag: Handler<"apiTag"> = async (exchange, { name, tag: wanted }, services) => {
  const view = (await services.overview.one(name))?.tags.find((each) => each.tag === wanted);
  const stored = view && (await services.manifests.get(name, view.digest));
  if (!view || !stored) throw new Fault("notFound", "tag not found");
  const snapshotConfig =
    view.kind === "snapshot"
      ? await readConfig(name, (await stored.manifest()).config?.digest, services)
      : undefined;
  exchange.json(200, {
    repoName: name,
    tag: wanted,
    artifactType: "",
    ...commonTagJson(view),
    manifest: JSON.parse(stored.bytes.toString("utf8")) as unknown,
    snapshotConfig,
    platformSizes: view.platformSizes,
  });
};

/** Gone is what was requested: no difference between a tag that was there and one that was not. */
const deleteTag: Handler<"apiTag"> = async (exchange, { name, tag }, { manifests }) => {
  await manifests.deleteTag(name, tag);
  exchange.send(204, {});
};

const sync: Handler<"apiSync"> = async (exchange, _route, { overview }) => {
  await overview.rescan();
  exchange.json(200, { status: "synced" });
};

async function visible(exchange: Exchange, views: readonly RepositoryView[]): Promise<RepositoryView[]> {
  const scopes = exchange.caller?.scopes ?? [];
  return views.filter(({ name }) => allows(scopes, { kind: "repository", name, action: "pull" }));
}

function repositoryJson({ id, name, tags }: RepositoryView) {
  const newest = tags[0];
  const times = tags.map((tag) => tag.pushedAt).sort();
  const sizes = new Map(tags.map((tag) => [tag.digest, tag.totalSize]));
  return {
    id,
    name,
    tagCount: tags.length,
    totalSize: [...sizes.values()].reduce((total, size) => total + size, 0),
    artifactType: newest?.artifactType,
    kind: newest?.kind,
    // Ours: a machine sleeps in it.
    ...(tags.some(({ tag }) => tag === hibernateTag) ? { hibernated: true } : {}),
    createdAt: times[0] ?? "",
    updatedAt: times.at(-1) ?? "",
  };
}

function commonTagJson(tag: TagView) {
  return {
    digest: tag.digest.replace(/^sha256:/, ""),
    ...(tag.artifactType === undefined ? {} : { artifactType: tag.artifactType }),
    kind: tag.kind,
    totalSize: tag.totalSize,
    layerCount: tag.layerCount,
    pushedAt: tag.pushedAt,
    syncedAt: tag.syncedAt,
  };
}

/** Left out when it cannot be read: the rest of the answer is still of use. */
async function readConfig(
  name: RepositoryName,
  digest: Digest | undefined,
  { blobs }: Services,
): Promise<unknown> {
  await using blob = digest && (await blobs.open(name, digest));
  if (!blob || blob.sizeBytes > maxSnapshotConfigBytes) return undefined;
  try {
    return JSON.parse((await blob.readAll()).toString("utf8")) as unknown;
  } catch {
    return undefined; // not JSON
  }
}

export const repositoryRoutes = {
  apiStats: { GET: stats },
  apiRepositories: { GET: list },
  apiRepository: { GET: one },
  apiTags: { GET: tags },
  apiTag: { GET: tag, DELETE: deleteTag },
  apiSync: { POST: sync },
} satisfies Partial<RouteTable>;
