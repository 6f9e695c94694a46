import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { describe, it } from "node:test";
import fc from "fast-check";
import type { RepositoryName } from "../names.ts";
import { SessionIds, newRun } from "./session-id.ts";

const name = "team/app" as RepositoryName;

describe("names of upload sessions", () => {
  it("are read back with the secret, for that repository only", () => {
    const secret = randomBytes(32);
    const id = new SessionIds(secret).create(name, { run: newRun(), nowMs: 1_700_000_000_123 });
    assert.deepEqual(new SessionIds(secret).tryRead(name, id.text), id);
    assert.equal(new SessionIds(secret).tryRead("team/other" as RepositoryName, id.text), undefined);
    assert.equal(new SessionIds(randomBytes(32)).tryRead(name, id.text), undefined);
  });

  it("cannot be changed", () => {
    const ids = new SessionIds(randomBytes(32));
    const { text } = ids.create(name, { run: newRun(), nowMs: Date.now() });
    fc.assert(
      fc.property(fc.nat(text.length - 1), fc.constantFrom("0", "f", "z", "-", "/", "."), (at, character) => {
        const changed = text.slice(0, at) + character + text.slice(at + 1);
        if (changed !== text) assert.equal(ids.tryRead(name, changed), undefined);
      }),
    );
  });

  it("are file names, and nothing that leads elsewhere", () => {
    const id = new SessionIds(randomBytes(32)).create(name, { run: newRun(), nowMs: Date.now() });
    assert.match(id.stem, /^[0-9a-z-]+$/);
  });
});
