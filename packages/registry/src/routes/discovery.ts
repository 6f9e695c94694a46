/** Content discovery: the ping, tags, repositories and referrers, page by page. */
import { mediaType } from "@cocoon/contract";
import { allows } from "../auth/access.ts";
import type { ReferrerDescriptor } from "../content/manifest.ts";
import type { Exchange } from "../http/exchange.ts";
import type { Handler, RouteTable } from "../http/handler.ts";
import type { Digest, RepositoryName, Tag } from "../names.ts";
import { ociFault } from "../oci-fault.ts";
import type { Services } from "../open-services.ts";

const ping: Handler<"ping"> = (exchange) => exchange.json(200, {});

const tags: Handler<"tags"> = async (exchange, { name }, { manifests, epochCompat }) => {
  const page = readPage(exchange.query);
  const found = await manifests.tagPage(name, { after: page.last, limit: page.limit + 1 });
  if (found.length === 0 && !epochCompat && !(await manifests.repositoryExists(name)))
    throw ociFault("NAME_UNKNOWN", `there is no repository ${name}`);
  const shown = found.slice(0, page.limit);
  const next = shown.length < found.length ? shown.at(-1) : undefined;
  exchange.json(200, { name, tags: shown }, nextLink(exchange, { next, limit: page.limit }));
};

const catalog: Handler<"catalog"> = async (exchange, _route, { manifests }) => {
  const page = readPage(exchange.query);
  const scopes = exchange.caller?.scopes ?? [];
  const isVisible = (name: RepositoryName) => allows(scopes, { kind: "repository", name, action: "pull" });
  const found = await manifests.repositories({ after: page.last, limit: page.limit + 1, isVisible });
  const shown = found.slice(0, page.limit);
  const next = shown.length < found.length ? shown.at(-1) : undefined;
  exchange.json(200, { repositories: shown }, nextLink(exchange, { next, limit: page.limit }));
};

/** Without `n` everything is listed. */
const maxPage = 1e9;

function readPage(query: URLSearchParams): { readonly limit: number; readonly last: string } {
  const text = query.get("n");
  if (text !== null && !/^\d{1,9}$/.test(text))
    throw ociFault("PAGINATION_NUMBER_INVALID", "n must be a whole number");
  return { limit: text === null ? maxPage : Number(text), last: query.get("last") ?? "" };
}

/** No link when the page is empty: there is nothing to go on from. */
function nextLink(
  exchange: Exchange,
  { next, limit }: { next: string | undefined; limit: number },
): Record<string, string> {
  if (next === undefined) return {};
  const query = new URLSearchParams(exchange.query);
  query.set("last", next);
  if (limit < maxPage) query.set("n", String(limit));
  return { link: `<${exchange.path}?${query.toString()}>; rel="next"` };
}

const maxReferrersPerPage = 1_000;
/** Annotations are part of the answer, and pushed by others. */
const maxReferrersBytes = 4 * 1024 * 1024;

const referrers: Handler<"referrers"> = async (exchange, { name, subject }, services) => {
  const wantedType = exchange.query.get("artifactType");
  const last = exchange.query.get("last") ?? "";
  const digests = await findReferrers(name, { subject, last }, services);
  const shown: ReferrerDescriptor[] = [];
  let bytes = 0;
  let next: Digest | undefined;
  for (const [index, digest] of digests.entries()) {
    const descriptor = await services.manifests.describeReferrer(name, { subject, digest });
    if (descriptor && (wantedType === null || descriptor.artifactType === wantedType)) {
      shown.push(descriptor);
      bytes += JSON.stringify(descriptor).length;
    }
    const isFull = bytes >= maxReferrersBytes || index + 1 === maxReferrersPerPage;
    if (isFull && index + 1 < digests.length) next = digest;
    if (isFull) break;
  }
  const headers = {
    "content-type": mediaType.ociIndex,
    ...(wantedType === null ? {} : { "oci-filters-applied": "artifactType" }),
    ...nextLink(exchange, { next, limit: maxPage }),
  };
  exchange.json(200, { schemaVersion: 2, mediaType: mediaType.ociIndex, manifests: shown }, headers);
};

/** From our index, and from the tag that clients keep for registries without a referrers API. One more than a page. */
async function findReferrers(
  name: RepositoryName,
  { subject, last }: { readonly subject: Digest; readonly last: string },
  { manifests }: Services,
): Promise<Digest[]> {
  const limit = maxReferrersPerPage + 1;
  const indexed = await manifests.referrers(name, subject, { after: last, limit });
  const [algorithm = "", hex = ""] = subject.split(":");
  const fallback = await manifests.resolve(name, `${algorithm}-${hex.slice(0, 64)}` as Tag);
  const listed = (await fallback?.manifest())?.manifests.map((each) => each.digest) ?? [];
  const all = new Set([...indexed, ...listed.filter((digest) => digest > last)]);
  return [...all].sort().slice(0, limit);
}

export const discoveryRoutes = {
  ping: { GET: ping },
  tags: { GET: tags },
  catalog: { GET: catalog },
  referrers: { GET: referrers },
} satisfies Partial<RouteTable>;
