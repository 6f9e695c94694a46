/** Finding things: the ping, tags, repositories and referrers, page by page. */
import { mediaType } from "@cocoon/contract";
import { referrerDescriptor, type ReferrerDescriptor } from "../content/manifest.ts";
import type { Exchange } from "../http/exchange.ts";
import type { Handler, Methods } from "../http/handler.ts";
import type { Digest, RepositoryName, Tag } from "../names.ts";
import { ociFault } from "../oci-fault.ts";
import type { Services } from "../services.ts";

const ping: Handler<"ping"> = (exchange) => exchange.json(200, {});

const tags: Handler<"tags"> = async (exchange, { name }, { manifests, epochCompat }) => {
  const all = await manifests.tags(name);
  if (all.length === 0 && !epochCompat && !(await manifests.repositoryExists(name)))
    throw ociFault("NAME_UNKNOWN", `there is no repository ${name}`);
  const page = readPage(exchange.query);
  const rest = all.filter((tag) => tag > page.last);
  const shown = rest.slice(0, page.limit);
  const next = shown.length < rest.length ? shown.at(-1) : undefined;
  exchange.json(200, { name, tags: shown }, nextLink(exchange, { next, limit: page.limit }));
};

const catalog: Handler<"catalog"> = async (exchange, _route, { manifests }) => {
  const page = readPage(exchange.query);
  const found = await manifests.repositories({ after: page.last, limit: page.limit + 1 });
  const shown = found.slice(0, page.limit);
  const next = shown.length < found.length ? shown.at(-1) : undefined;
  exchange.json(200, { repositories: shown }, nextLink(exchange, { next, limit: page.limit }));
};

interface Page {
  readonly limit: number;
  readonly last: string;
}

function readPage(query: URLSearchParams): Page {
  const text = query.get("n");
  if (text !== null && !/^\d{1,9}$/.test(text))
    throw ociFault("PAGINATION_NUMBER_INVALID", "n must be a whole number");
  return { limit: text === null ? Infinity : Number(text), last: query.get("last") ?? "" };
}

/** No link when the page is empty: there is nothing to go on from. */
function nextLink(
  exchange: Exchange,
  { next, limit }: { next: string | undefined; limit: number },
): Record<string, string> {
  if (next === undefined) return {};
  const query = new URLSearchParams(exchange.query);
  query.set("last", next);
  if (Number.isFinite(limit)) query.set("n", String(limit));
  return { link: `<${exchange.path}?${query.toString()}>; rel="next"` };
}

const maxReferrersPerPage = 1_000;

const referrers: Handler<"referrers"> = async (exchange, { name, subject }, services) => {
  const wantedType = exchange.query.get("artifactType");
  const last = exchange.query.get("last") ?? "";
  const digests = await referringDigests(name, subject, services);
  const rest = digests.filter((digest) => digest > last);
  const shown = rest.slice(0, maxReferrersPerPage);
  const described = await Promise.all(shown.map((digest) => describe(name, digest, services)));
  const manifests = described.filter(
    (each) => each !== undefined && (wantedType === null || each.artifactType === wantedType),
  );
  const next = shown.length < rest.length ? shown.at(-1) : undefined;
  const headers = {
    "content-type": mediaType.ociIndex,
    ...(wantedType === null ? {} : { "oci-filters-applied": "artifactType" }),
    ...nextLink(exchange, { next, limit: Infinity }),
  };
  exchange.json(200, { schemaVersion: 2, mediaType: mediaType.ociIndex, manifests }, headers);
};

/** From our index, and from the tag that clients kept for registries without a referrers API. */
async function referringDigests(
  name: RepositoryName,
  subject: Digest,
  { manifests }: Services,
): Promise<Digest[]> {
  const indexed = await manifests.referrers(name, subject);
  const [algorithm = "", hex = ""] = subject.split(":");
  const fallback = await manifests.resolve(name, `${algorithm}-${hex.slice(0, 64)}` as Tag);
  const listed = fallback?.manifest().manifests.map((each) => each.digest) ?? [];
  return [...new Set([...indexed, ...listed])].sort();
}

async function describe(
  name: RepositoryName,
  digest: Digest,
  { manifests }: Services,
): Promise<ReferrerDescriptor | undefined> {
  const stored = await manifests.get(name, digest);
  return stored && referrerDescriptor(stored.manifest(), { digest, size: stored.bytes.length });
}

export const pingRoute: Methods<"ping"> = { GET: ping };
export const tagsRoute: Methods<"tags"> = { GET: tags };
export const catalogRoute: Methods<"catalog"> = { GET: catalog };
export const referrersRoute: Methods<"referrers"> = { GET: referrers };
