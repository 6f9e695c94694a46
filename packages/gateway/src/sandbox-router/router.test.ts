import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { readRouterTarget } from "./router-target.ts";
import { resolvePath } from "./runtime-routes.ts";
import { splitWords } from "./shell-words.ts";

test("a target is read from the headers, with upstream's defaults and words", () => {
  const target = { namespace: "default", name: "s1", port: 8888, podIp: undefined, uid: undefined };
  assert.deepEqual(readRouterTarget({ "x-sandbox-id": "s1" }), target);
  const refused: readonly (readonly [Record<string, string>, string])[] = [
    [{}, "X-Sandbox-ID header is required."],
    [{ "x-sandbox-id": "A_b" }, "Invalid sandbox ID format."],
    [{ "x-sandbox-id": "a", "x-sandbox-namespace": "-" }, "Invalid namespace format."],
    [{ "x-sandbox-id": "a", "x-sandbox-port": "0" }, "Invalid port format."],
    [{ "x-sandbox-id": "a", "x-sandbox-port": "70000" }, "Invalid port format."],
    [{ "x-sandbox-id": "a", "x-sandbox-pod-ip": "x" }, "Invalid target IP address."],
  ];
  for (const [headers, message] of refused)
    assert.throws(() => readRouterTarget(headers), { status: 400, message });
});

test("words that are quoted come back as they were", () => {
  const quote = (word: string) => `'${word.replaceAll("'", `'\\''`)}'`;
  fc.assert(
    fc.property(fc.array(fc.string()), (words) => {
      assert.deepEqual(splitWords(words.map(quote).join(" ")), words);
    }),
  );
  assert.deepEqual(splitWords(String.raw`echo "a \"b\"" c\ d ''`), ["echo", 'a "b"', "c d", ""]);
  assert.throws(() => splitWords("echo 'a"), /not closed/);
});

test("no path leaves the base directory", () => {
  assert.equal(resolvePath("a/../b"), "/app/b");
  fc.assert(
    fc.property(fc.string(), (path) => {
      try {
        assert.match(resolvePath(path), /^\/app(\/|$)/);
      } catch (error) {
        assert.equal((error as { status?: number }).status, 403);
      }
    }),
  );
});
