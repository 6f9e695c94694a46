/** Lists that a registry gives out in pages: tags, repositories, referrers. */
import { Fault, type Abortable } from "@cocoon/core";
import * as z from "zod";
import { describe, type Transport } from "./transport.ts";
import { faultOf, headerOf, readBody, type WireRequest, type WireResponse } from "./wire.ts";

const pageLimitBytes = 16 * 1024 * 1024;
const pageLimit = 100_000;

export interface PagedList<T> {
  readonly transport: Transport;
  readonly request: WireRequest;
  readonly read: (page: unknown) => readonly T[];
  /** Throws unless a registry said 404. */
  readonly assertRegistry: (options: Abortable) => Promise<void>;
}

/** Entries of all pages. A list that does not exist is empty. */
export async function* listPages<T>(
  list: PagedList<T>,
  { signal }: Abortable,
): AsyncGenerator<T, void, undefined> {
  let request: WireRequest | undefined = list.request;
  for (let pages = 0; request; pages += 1) {
    if (pages > pageLimit) throw new Fault("tooLarge", `${describe(request)}: the list does not end`);
    const response: WireResponse = await list.transport.send(request, { signal });
    if (response.status === 404) {
      await response.body.dump();
      await list.assertRegistry({ signal });
      return;
    }
    if (response.status !== 200) throw await faultOf(response, describe(request));
    yield* list.read(await readJson(response));
    request = nextPage(request, response);
  }
}

async function readJson(response: WireResponse): Promise<unknown> {
  const body = await readBody(response, pageLimitBytes);
  try {
    return JSON.parse(body.toString("utf8"));
  } catch (error) {
    throw new Fault("unavailable", `${response.url.pathname}: the answer is not JSON`, { cause: error });
  }
}

/** `Link: <…>; rel="next"`, only on the registry itself: the next request carries our token. */
function nextPage(request: WireRequest, response: WireResponse): WireRequest | undefined {
  const link = /<([^>]*)>\s*;[^,]*\brel="?next"?/i.exec(headerOf(response, "link") ?? "");
  if (!link?.[1]) return undefined;
  const url = URL.parse(link[1], response.url);
  if (!url || url.origin !== request.url.origin || url.href === request.url.href)
    throw new Fault("unavailable", `${describe(request)}: the link to the next page leads astray`);
  return { ...request, url };
}

const tagsSchema = z.looseObject({ tags: z.array(z.string()).nullish() });
const catalogSchema = z.looseObject({ repositories: z.array(z.string()).nullish() });

export function tagPage(page: unknown): readonly string[] {
  return parsed(tagsSchema, page, "tag list").tags ?? [];
}

export function catalogPage(page: unknown): readonly string[] {
  return parsed(catalogSchema, page, "catalog").repositories ?? [];
}

const referrerSchema = z.looseObject({
  mediaType: z.string(),
  digest: z.string(),
  size: z.number(),
  artifactType: z.string().optional(),
  annotations: z.record(z.string(), z.string()).optional(),
});
export type Referrer = Readonly<z.output<typeof referrerSchema>>;

const indexSchema = z.looseObject({ manifests: z.array(referrerSchema).nullish() });

function referrerPage(page: unknown): readonly Referrer[] {
  return parsed(indexSchema, page, "referrers").manifests ?? [];
}

export interface ReferrerQuery {
  readonly digest: string;
  readonly artifactType?: string;
}

export interface ReferrerList extends Omit<PagedList<Referrer>, "read"> {
  readonly query: ReferrerQuery;
  /** The index kept under a tag by registries without the referrers API; undefined when there is none. */
  readonly fallback: () => Promise<Uint8Array | undefined>;
}

export async function readReferrers(list: ReferrerList, { signal }: Abortable): Promise<Referrer[]> {
  const { artifactType } = list.query;
  const url = new URL(list.request.url);
  if (artifactType !== undefined) url.searchParams.set("artifactType", artifactType);
  const first = await list.transport.send({ ...list.request, url }, { signal });
  const found: Referrer[] = [];
  if (first.status === 404) {
    await first.body.dump();
    const stored = await list.fallback();
    if (stored) found.push(...referrerPage(JSON.parse(Buffer.from(stored).toString("utf8"))));
  } else if (first.status === 200) {
    found.push(...referrerPage(await readJson(first)));
    const next = nextPage({ ...list.request, url }, first);
    const rest = next && listPages({ ...list, request: next, read: referrerPage }, { signal });
    for await (const each of rest ?? []) found.push(each);
  } else throw await faultOf(first, describe(list.request));
  // A registry may ignore the filter.
  return artifactType === undefined ? found : found.filter((each) => each.artifactType === artifactType);
}

function parsed<T>(schema: z.ZodType<T>, value: unknown, what: string): T {
  const result = schema.safeParse(value);
  if (!result.success)
    throw new Fault("unavailable", `the registry's ${what} is malformed`, { cause: result.error });
  return result.data;
}
