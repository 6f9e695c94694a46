/** Lists that a registry gives out in pages: tags and repositories. */
import { Fault, type Abortable } from "@cocoon/core";
import * as z from "zod";
import { describe, type Transport } from "./transport.ts";
import { readFault, getHeader, readBody, type WireRequest, type WireResponse } from "./wire.ts";

const pageLimitBytes = 16 * 1024 * 1024;
const pageLimit = 100_000;

interface PagedList<T> {
  readonly transport: Transport;
  readonly request: WireRequest;
  readonly read: (page: unknown) => readonly T[];
  /** Throws unless this 404 proves that the list does not exist. */
  readonly assertAbsent: (response: WireResponse, options: Abortable) => Promise<void>;
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
      await list.assertAbsent(response, { signal });
      if (pages === 0) return;
      throw new Fault("unavailable", `${describe(request)}: the list breaks off after ${pages} pages`);
    }
    if (response.status !== 200) throw await readFault(response, describe(request));
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
  const link = /<([^>]*)>\s*;[^,]*\brel="?next"?/i.exec(getHeader(response, "link") ?? "");
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

function parsed<T>(schema: z.ZodType<T>, value: unknown, what: string): T {
  const result = schema.safeParse(value);
  if (!result.success)
    throw new Fault("unavailable", `the registry's ${what} is malformed`, { cause: result.error });
  return result.data;
}
