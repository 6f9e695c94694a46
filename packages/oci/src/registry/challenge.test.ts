import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { readChallenges } from "./challenge.ts";

test("a bearer challenge gives realm, service and scope", () => {
  const header = 'Bearer realm="https://auth.example/token",service="reg",scope="repository:a/b:pull,push"';
  assert.deepEqual(readChallenges(header), [
    {
      scheme: "bearer",
      parameters: { realm: "https://auth.example/token", service: "reg", scope: "repository:a/b:pull,push" },
    },
  ]);
});

test("several challenges keep their order and their own parameters", () => {
  const header = 'Negotiate, Basic realm="a, \\"b\\"", charset=UTF-8, Bearer realm=https://x/t';
  assert.deepEqual(readChallenges(header), [
    { scheme: "negotiate", parameters: {} },
    { scheme: "basic", parameters: { realm: 'a, "b"', charset: "UTF-8" } },
    { scheme: "bearer", parameters: { realm: "https://x/t" } },
  ]);
});

test("any text is read without complaint", () => {
  fc.assert(fc.property(fc.string({ maxLength: 300 }), (text) => Array.isArray(readChallenges(text))));
});

test("quoted values survive as they are", () => {
  const value = fc.string({ maxLength: 40 }).filter((text) => !/["\\]/.test(text));
  fc.assert(
    fc.property(value, value, (realm, scope) => {
      const [challenge] = readChallenges(`Bearer realm="${realm}", scope="${scope}"`);
      assert.deepEqual(challenge?.parameters, { realm, scope });
    }),
  );
});
