/** Lists of sandboxes: filters, order and pages. */
import { ApiError } from "../http/answer.ts";
import type { Sandbox } from "../sandboxes/sandbox.ts";

export interface ListQuery {
  readonly states: ReadonlySet<string>;
  readonly metadata: readonly (readonly [string, string])[];
  readonly startedAfter: number | undefined;
  readonly template: string | undefined;
  readonly ascending: boolean;
  readonly limit: number;
  readonly after: Cursor | undefined;
}

interface Cursor {
  readonly startedAt: string;
  readonly id: string;
}

const states = new Set(["running", "paused"]);

export function parseListQuery(query: URLSearchParams): ListQuery {
  const order = query.get("order") ?? "desc";
  if (order !== "asc" && order !== "desc")
    throw new ApiError(400, `order: "${order}" is neither asc nor desc`);
  const template = query.get("template") ?? undefined;
  if (template?.includes(":")) throw new ApiError(400, "template: a tag cannot be filtered by");
  return {
    states: parseStates(query.getAll("state")),
    metadata: parseMetadata(query.get("metadata")),
    startedAfter: parseTime(query.get("startedAfter")),
    template,
    ascending: order === "asc",
    limit: parseLimit(query.get("limit")),
    after: parseCursor(query.get("nextToken")),
  };
}

function parseStates(values: readonly string[]): ReadonlySet<string> {
  const wanted = values.flatMap((value) => value.split(",")).filter((value) => value !== "");
  const unknown = wanted.find((value) => !states.has(value));
  if (unknown) throw new ApiError(400, `state: "${unknown}" is neither running nor paused`);
  return wanted.length === 0 ? states : new Set(wanted);
}

/** Encoded three times: as a parameter, as a whole, and part by part. */
export function parseMetadata(text: string | null): readonly (readonly [string, string])[] {
  if (text === null || text === "") return [];
  try {
    return decodeURIComponent(text)
      .split("&")
      .map((pair) => {
        const [key = "", value, ...rest] = pair.split("=");
        if (value === undefined || rest.length > 0)
          throw new ApiError(400, `metadata: "${pair}" is not key=value`);
        return [decodeURIComponent(key), decodeURIComponent(value)] as const;
      });
  } catch (error) {
    if (error instanceof ApiError) throw error;
    throw new ApiError(400, "metadata: not percent-encoded text");
  }
}

function parseTime(text: string | null): number | undefined {
  if (text === null) return undefined;
  const time = Date.parse(text);
  if (Number.isNaN(time)) throw new ApiError(400, `startedAfter: "${text}" is not an RFC 3339 time`);
  return time;
}

export function parseLimit(text: string | null): number {
  if (text === null) return 100;
  const limit = Number(text);
  if (!Number.isInteger(limit) || limit < 1 || limit > 100) throw new ApiError(400, "limit: 1 to 100");
  return limit;
}

function parseCursor(text: string | null): Cursor | undefined {
  if (text === null || text === "") return undefined;
  const [startedAt = "", id = "", ...rest] = Buffer.from(text, "base64url").toString("utf8").split("__");
  if (rest.length > 0 || Number.isNaN(Date.parse(startedAt)) || !/^[a-z0-9]+$/.test(id))
    throw new ApiError(400, "nextToken: not one of ours");
  return { startedAt, id };
}

export interface Page {
  readonly items: readonly Sandbox[];
  readonly nextToken: string | undefined;
  readonly running: number;
}

export function selectPage(sandboxes: readonly Sandbox[], query: ListQuery): Page {
  const matching = sandboxes.filter((sandbox) => matches(sandbox, query));
  const direction = query.ascending ? 1 : -1;
  matching.sort((left, right) => direction * compare(toCursor(left), toCursor(right)));
  const { after, limit } = query;
  const first = after ? matching.findIndex((each) => direction * compare(toCursor(each), after) > 0) : 0;
  const items = first < 0 ? [] : matching.slice(first, first + limit);
  const last = items.at(-1);
  const more = first >= 0 && first + limit < matching.length;
  return {
    items,
    nextToken:
      more && last ? Buffer.from(`${last.spec.startedAt}__${last.id}`).toString("base64url") : undefined,
    running: matching.filter(({ state }) => state === "running").length,
  };
}

function matches({ state, spec }: Sandbox, query: ListQuery): boolean {
  return (
    query.states.has(state) &&
    query.metadata.every(([key, value]) => spec.metadata[key] === value) &&
    (query.startedAfter === undefined || Date.parse(spec.startedAt) >= query.startedAfter) &&
    (query.template === undefined || spec.template === query.template)
  );
}

function toCursor({ id, spec }: Sandbox): Cursor {
  return { startedAt: spec.startedAt, id };
}

function compare(left: Cursor, right: Cursor): number {
  const byTime = Date.parse(left.startedAt) - Date.parse(right.startedAt);
  return byTime || (left.id < right.id ? -1 : left.id > right.id ? 1 : 0);
}
