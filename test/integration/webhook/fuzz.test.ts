/** Reviews that no API server sends: never a crash, never a hang, never a 500, never a verdict without its uid. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { count, seededRandom, testSeed } from "@cocoon/testkit";
import { openBorder, type Border } from "./border.ts";
import { mutateReview, reviewSeeds } from "./fuzz-reviews.ts";

let border: Border;
const stack = new AsyncDisposableStack();
const paths = ["/mutate", "/validate", "/validate-cocoonset", "/validate-cocoonhibernation"];

before(async () => {
  border = stack.use(await openBorder());
});
after(() => stack.disposeAsync());

test("fuzzed AdmissionReviews", { timeout: 900_000 }, async (t) => {
  const random = seededRandom(testSeed());
  const rounds = count({ small: 1_500, full: 10_000 });
  const statuses = new Map<number, number>();
  const one = async (): Promise<void> => {
    const seed = reviewSeeds[Math.floor(random() * reviewSeeds.length)] ?? reviewSeeds[0];
    const body = mutateReview(seed, random);
    const path = paths[Math.floor(random() * paths.length)] ?? "/mutate";
    const { status, text } = await border.send(path, body);
    statuses.set(status, (statuses.get(status) ?? 0) + 1);
    assert.ok(status < 500, `${path} answered ${status} ${text} to ${body.toString().slice(0, 2_000)}`);
    if (status !== 200) return;
    const sent = JSON.parse(body.toString()) as { request: { uid?: string | null } };
    const { response } = JSON.parse(text) as { response: { uid: string; allowed: boolean } };
    assert.equal(response.uid, sent.request.uid ?? "");
    assert.equal(typeof response.allowed, "boolean");
  };
  for (let sent = 0; sent < rounds; sent += 16) await Promise.all(Array.from({ length: 16 }, one));
  t.diagnostic([...statuses].map(([status, times]) => `${times} x ${status}`).join(", "));
  assert.ok((statuses.get(200) ?? 0) > rounds / 4, "most of them reach the handlers");
});

test("what is no review at all is the client's fault, and said so", async () => {
  const cases: readonly (readonly [body: string, status: number, text: RegExp])[] = [
    ["", 400, /empty/],
    ["{", 400, /decode admission review/],
    ["null", 400, /AdmissionReview/],
    ["{}", 400, /admission review missing request/],
    ['{"request":[]}', 400, /request must be an object/],
    ["[".repeat(1_000), 400, /nests deeper/],
    [`{"kind":"Pod","apiVersion":"v1","request":{}}`, 400, /must be an AdmissionReview/],
    [`{"request":{"uid":"x"}}${" ".repeat(10 * 1024 * 1024)}`, 413, /./],
  ];
  for (const [body, status, text] of cases) {
    const answer = await border.send("/validate", body);
    assert.equal(answer.status, status, body.slice(0, 80));
    assert.match(answer.text, text);
  }
  assert.equal((await border.send("/validate", "{}", { "content-type": "text/plain" })).status, 415);
  assert.equal((await border.send("/elsewhere", "{}")).status, 404);
});
