import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { computeDigest, type Digest } from "../names.ts";
import { mark, type PresentManifest } from "./mark.ts";

const named = (text: string): Digest => computeDigest(Buffer.from(text));
const descriptor = (text: string) => ({ digest: named(text), size: 1 });

interface Shape {
  readonly blobs?: readonly string[];
  readonly children?: readonly string[];
  readonly subject?: string;
  readonly recent?: boolean;
}

function manifest(
  name: string,
  { blobs = [], children = [], subject, recent = false }: Shape = {},
): PresentManifest {
  return {
    digest: named(name),
    recent,
    manifest: {
      config: undefined,
      layers: blobs.map(descriptor),
      manifests: children.map(descriptor),
      subject: subject === undefined ? undefined : descriptor(subject),
    },
  };
}

function findAlive(present: readonly PresentManifest[], ...tagged: string[]): Digest[] {
  return [...mark(present, new Set(tagged.map(named))).alive].sort();
}

const digests = (...names: string[]) => names.map(named).sort();

describe("mark", () => {
  it("keeps what a tag points to and what is recent", () => {
    const present = [manifest("tagged"), manifest("recent", { recent: true }), manifest("old")];
    assert.deepEqual(findAlive(present, "tagged"), digests("tagged", "recent"));
    assert.deepEqual(mark(present, new Set([named("tagged")])).dead, [named("old")]);
  });

  it("keeps the children of a living index, however deep, and takes those of a dead one", () => {
    const present = [
      manifest("index", { children: ["inner", "absent"] }),
      manifest("inner", { children: ["leaf"] }),
      manifest("leaf"),
      manifest("dead-index", { children: ["dead-leaf"] }),
      manifest("dead-leaf"),
    ];
    assert.deepEqual(findAlive(present, "index"), digests("index", "inner", "leaf"));
  });

  it("keeps what refers to a living subject, and what refers to that", () => {
    const present = [
      manifest("image"),
      manifest("signature", { subject: "image" }),
      manifest("attestation", { subject: "signature" }),
      manifest("stray", { subject: "gone" }),
    ];
    assert.deepEqual(findAlive(present, "image"), digests("image", "signature", "attestation"));
  });

  it("ends on circles", () => {
    const present = [manifest("a", { children: ["b"] }), manifest("b", { children: ["a"], subject: "a" })];
    assert.deepEqual(findAlive(present, "a"), digests("a", "b"));
    assert.deepEqual(findAlive(present), []);
  });

  it("collects the blobs of the living only", () => {
    const present = [manifest("one", { blobs: ["x", "y"] }), manifest("two", { blobs: ["y", "z"] })];
    assert.deepEqual([...mark(present, new Set([named("one")])).blobs].sort(), digests("x", "y"));
  });
});
