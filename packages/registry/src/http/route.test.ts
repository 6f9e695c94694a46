import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { isFault } from "@cocoon/core";
import { readRoute } from "./route.ts";

const digest = `sha256:${"a".repeat(64)}`;

describe("routes", () => {
  const cases: readonly [string, unknown][] = [
    ["/v2/", { kind: "ping" }],
    ["/v2/_catalog", { kind: "catalog" }],
    ["/v2/a/manifests/v1", { kind: "manifest", name: "a", reference: "v1" }],
    ["/v2/a/b/c/manifests/latest", { kind: "manifest", name: "a/b/c", reference: "latest" }],
    [`/v2/a/blobs/${digest}`, { kind: "blob", name: "a", digest }],
    [`/v2/a/blobs/${encodeURIComponent(digest)}`, { kind: "blob", name: "a", digest }],
    ["/v2/a/blobs/uploads/", { kind: "uploads", name: "a" }],
    ["/v2/a/blobs/uploads", { kind: "uploads", name: "a" }],
    ["/v2/a/blobs/uploads/x-1", { kind: "upload", name: "a", session: "x-1" }],
    ["/v2/a/tags/list", { kind: "tags", name: "a" }],
    [`/v2/a/referrers/${digest}`, { kind: "referrers", name: "a", subject: digest }],
    ["/v2/blobs/uploads/manifests/v1", { kind: "manifest", name: "blobs/uploads", reference: "v1" }],
    ["/v2/manifests/tags/list", { kind: "tags", name: "manifests" }],
    ["/v2/a/uploads/tags/list", { kind: "tags", name: "a/uploads" }],
    ["/api/repositories/a%2Fb", { kind: "apiRepository", name: "a/b" }],
    ["/api/repositories/a/b/tags", { kind: "apiTags", name: "a/b" }],
    ["/api/repositories/a%2Fb/tags/v1", { kind: "apiTag", name: "a/b", tag: "v1" }],
    ["/api/repositories/tags", { kind: "apiRepository", name: "tags" }],
    ["/api/tokens/17", { kind: "apiToken", id: 17 }],
    ["/api/tokens/x", { kind: "apiToken", id: undefined }],
    ["/dl/os/windows", { kind: "download", name: "os/windows" }],
    ["/v2/a", undefined],
    ["/v2/a/tags/other", undefined],
    ["/v3/", undefined],
    ["/constructor", undefined],
  ];
  for (const [path, route] of cases)
    it(`reads ${path.slice(0, 60)}`, () => {
      assert.deepEqual(readRoute(path), route);
    });

  it("only ever yields names that are safe as part of a path, or an error that says what is wrong", () => {
    const part = fc.oneof(
      fc.constantFrom("..", ".", "a", "blobs", "uploads", "manifests", "tags", "list", "%2e%2e", "%00"),
      fc.string(),
    );
    fc.assert(
      fc.property(fc.array(part, { maxLength: 7 }), (parts) => {
        try {
          const route = readRoute(`/v2/${parts.join("/")}`);
          if (route && "name" in route) assert.match(route.name, /^[a-z0-9]+([._/-]+[a-z0-9]+)*$/);
        } catch (error) {
          assert.ok(isFault(error, "badRequest") || isFault(error, "notFound"), String(error));
        }
      }),
      { numRuns: 3_000 },
    );
  });
});
