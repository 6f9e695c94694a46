import assert from "node:assert/strict";
import { test } from "node:test";
import type { Sandbox } from "../sandboxes/sandbox.ts";
import { parseListQuery, parseMetadata, selectPage } from "./list.ts";

function sandbox(
  id: string,
  startedAt: string,
  changes: Partial<Sandbox["spec"]> & { state?: Sandbox["state"] } = {},
): Sandbox {
  const { state = "running", ...spec } = changes;
  return {
    id,
    namespace: "a",
    set: { metadata: {} },
    spec: {
      account: "x",
      template: "base",
      metadata: {},
      env: {},
      timeout: 1,
      autoPause: false,
      autoResume: false,
      secure: true,
      publicTraffic: false,
      startedAt,
      ...spec,
    },
    state,
    endAt: new Date(0),
    isReady: true,
    phase: "Running",
  };
}

const list = (text: string, sandboxes: readonly Sandbox[]) =>
  selectPage(sandboxes, parseListQuery(new URLSearchParams(text)));
const ids = (text: string, sandboxes: readonly Sandbox[]) => list(text, sandboxes).items.map(({ id }) => id);

test("ten thousand sandboxes are paged through, each once", () => {
  const all = Array.from({ length: 10_000 }, (_, index) =>
    sandbox(`i${index}`, new Date(1_000 * (index % 500)).toISOString()),
  );
  const seen = new Set<string>();
  for (let token = ""; ;) {
    const page = list(`limit=100${token === "" ? "" : `&nextToken=${encodeURIComponent(token)}`}`, all);
    for (const { id } of page.items) seen.add(id);
    if (page.nextToken === undefined || page.nextToken === "") break;
    token = page.nextToken;
  }
  assert.equal(seen.size, 10_000);
});

test("metadata is encoded three times", () => {
  const query = new URLSearchParams("metadata=k%2525201%3Da%252526b%25253Dc");
  assert.deepEqual(parseMetadata(query.get("metadata")), [["k 1", "a&b=c"]]);
  assert.throws(() => parseMetadata("a"), /key=value/);
});

test("newest first, filtered, and page by page without loss or repetition", () => {
  const all = Array.from({ length: 250 }, (_, index) =>
    sandbox(
      `i${String(index).padStart(3, "0")}`,
      new Date(1_000 * Math.floor(index / 3)).toISOString(),
      index % 2 ? { state: "paused" } : {},
    ),
  );
  const seen: string[] = [];
  for (let token: string | undefined = ""; token !== undefined;) {
    const page = list(`limit=7&order=asc&nextToken=${token}`, all);
    seen.push(...page.items.map(({ id }) => id));
    token = page.nextToken;
  }
  assert.deepEqual(
    seen,
    all.map(({ id }) => id),
  );
  assert.deepEqual(ids("limit=1", all), ["i249"]);
  assert.equal(list("state=running", all).running, 125);
  assert.deepEqual(ids("startedAfter=1970-01-01T00:01:23Z", all), ["i249"]);
  assert.deepEqual(ids("template=other", all), []);
});

test("bad queries are named", () => {
  for (const [query, field] of [
    ["order=up", /order/],
    ["limit=0", /limit/],
    ["state=gone", /state/],
    ["nextToken=x", /nextToken/],
    ["template=a:b", /template/],
  ] as const)
    assert.throws(() => parseListQuery(new URLSearchParams(query)), field);
});
