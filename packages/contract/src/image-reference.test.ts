import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import {
  formatImageReference,
  isRepository,
  tryParseImageReference,
  tryParseRelativeReference,
  type ImageReference,
  type RegistryReference,
} from "./image-reference.ts";

const digest = `sha256:${"a".repeat(64)}`;

test("references relative to the registry", () => {
  const table: readonly (readonly [string, string | undefined])[] = [
    ["base", "base latest"],
    ["team/base:v7", "team/base v7"],
    ["ghcr.io/a/b:1", "ghcr.io/a/b 1"],
    ["a__b--c.d/e_f", "a__b--c.d/e_f latest"],
    [`a:${"t".repeat(128)}`, `a ${"t".repeat(128)}`],
    [`a:${"t".repeat(129)}`, undefined],
    ["registry:5000/a:1", undefined],
    [`a@${digest}`, undefined],
    ["https://example.com/x", undefined],
    ["Team/base", undefined],
    ["a..b", undefined],
    ["a___b", undefined],
    ["/a", undefined],
    ["a/", undefined],
    ["a//b", undefined],
    ["a:", undefined],
    ["", undefined],
    ["a".repeat(256), undefined],
  ];
  for (const [text, parts] of table) {
    const reference = tryParseRelativeReference(text);
    assert.equal(reference && `${reference.repository} ${reference.tag}`, parts, text);
  }
});

test("any reference", () => {
  const table: readonly (readonly [string, Omit<RegistryReference, "kind"> | undefined])[] = [
    ["base", { repository: "base" }],
    ["library/base:1", { repository: "library/base", tag: "1" }],
    ["registry:5000/a:1", { registry: "registry:5000", repository: "a", tag: "1" }],
    ["localhost/a", { registry: "localhost", repository: "a" }],
    ["ghcr.io/a/b", { registry: "ghcr.io", repository: "a/b" }],
    ["[fd00::1]:5000/a", { registry: "[fd00::1]:5000", repository: "a" }],
    [`a@${digest}`, { repository: "a", digest }],
    [`ghcr.io/a:1@${digest}`, { registry: "ghcr.io", repository: "a", tag: "1", digest }],
    ["Registry.example/a", { registry: "Registry.example", repository: "a" }],
    ["Team/base", undefined],
    ["registry:0/a", undefined],
    ["registry:70000/a", undefined],
    ["a@sha256:short", undefined],
    [`a@${digest}@${digest}`, undefined],
    ["a b", undefined],
    ["", undefined],
  ];
  for (const [text, parts] of table)
    assert.deepEqual(tryParseImageReference(text), parts && { kind: "registry", ...parts }, text);
  const url = "https://example.com/x.img?y=1";
  assert.deepEqual(tryParseImageReference(url), { kind: "url", url });
  assert.equal(tryParseImageReference("http://"), undefined);
  assert.equal(tryParseImageReference(`https://${"a".repeat(3_000)}`), undefined);
});

const part = fc.stringMatching(/^[a-z0-9]{1,5}([._-][a-z0-9]{1,3})?$/);
const optional = <Value>(value: fc.Arbitrary<Value>) => fc.option(value, { nil: undefined });

test("every reference survives being written and read", () => {
  const reference: fc.Arbitrary<ImageReference> = fc
    .tuple(
      optional(fc.constantFrom("ghcr.io", "localhost", "registry:5000", "[::1]:80")),
      fc.array(part, { minLength: 1, maxLength: 3 }),
      optional(fc.stringMatching(/^[A-Za-z0-9_][A-Za-z0-9._-]{0,5}$/)),
      optional(fc.constant(digest)),
    )
    .filter(
      ([registry, parts]) =>
        registry !== undefined || parts.length === 1 || !/[.]|^localhost$/.test(parts[0] ?? ""),
    )
    .map(([registry, parts, tag, sum]) => ({
      kind: "registry" as const,
      repository: parts.join("/"),
      ...(registry === undefined ? {} : { registry }),
      ...(tag === undefined ? {} : { tag }),
      ...(sum === undefined ? {} : { digest: sum }),
    }));
  fc.assert(
    fc.property(reference, (value) => {
      assert.deepEqual(tryParseImageReference(formatImageReference(value)), value);
    }),
  );
  const url: ImageReference = { kind: "url", url: "https://example.com/x" };
  assert.equal(formatImageReference(url), url.url);
});

test("the short pattern of a repository means the grammar of the OCI distribution", () => {
  const component = "[a-z0-9]+((\\.|_|__|-+)[a-z0-9]+)*";
  const grammar = new RegExp(`^${component}(/${component})*$`);
  fc.assert(
    fc.property(fc.stringMatching(/^[ab._/-]{0,8}$/), (text) => {
      assert.equal(isRepository(text), grammar.test(text), text);
    }),
    { numRuns: 5_000 },
  );
});
