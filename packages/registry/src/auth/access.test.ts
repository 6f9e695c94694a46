import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { RepositoryName } from "../names.ts";
import { allows, intersect, readScope, tryReadScope, writeScope, type Action, type Scope } from "./access.ts";

const scopes = (...texts: string[]): Scope[] => texts.map(readScope);
const on = (name: string, action: Action) =>
  ({ kind: "repository", name: name as RepositoryName, action }) as const;

describe("scopes", () => {
  it("read what they write", () => {
    for (const text of [
      "admin",
      "registry:catalog:*",
      "registry:tokens:list",
      "repository:a/b:pull",
      "repository:vk-*:pull,push",
      "repository:*:pull,push,delete",
    ])
      assert.equal(writeScope(readScope(text)), text);
    assert.equal(writeScope(readScope("repository:a:*")), "repository:a:pull,push,delete");
  });

  for (const text of [
    "",
    "everything",
    "repository:a",
    "repository:A:pull",
    "repository:a:fly",
    "repository:a:pull:x",
    "registry:catalog:read",
    "repository:../x y:pull",
  ])
    it(`do not read ${JSON.stringify(text)}`, () => {
      assert.equal(tryReadScope(text), undefined);
      assert.throws(() => readScope(text), /is unknown/);
    });

  it("allow what they name and nothing else", () => {
    const held = scopes("repository:team/*:pull,push");
    assert.ok(allows(held, on("team/app", "pull")));
    assert.ok(!allows(held, on("team/app", "delete")));
    assert.ok(!allows(held, on("teams/app", "pull")));
    assert.ok(!allows(held, { kind: "catalog" }));
    assert.ok(!allows(held, { kind: "admin" }));
    assert.ok(!allows(held, { kind: "tokens" }));
    const lister = scopes("registry:tokens:list");
    assert.ok(allows(lister, { kind: "tokens" }));
    for (const need of [{ kind: "admin" }, { kind: "catalog" }, on("a", "pull")] as const)
      assert.ok(!allows(lister, need));
    assert.ok(!allows([], on("a", "pull")));
  });

  it("of an administrator cover everything", () => {
    for (const need of [on("a", "delete"), { kind: "catalog" }, { kind: "admin" }] as const)
      assert.ok(allows(scopes("admin"), need));
  });

  it("intersect to what both sides agree on", () => {
    const held = scopes("repository:team/*:pull,push", "registry:catalog:*");
    const wanted = scopes(
      "repository:team/app:pull,delete",
      "repository:other:pull",
      "registry:catalog:*",
      "admin",
    );
    assert.deepEqual(intersect(held, wanted).map(writeScope), [
      "repository:team/app:pull",
      "registry:catalog:*",
    ]);
  });
});
