import assert from "node:assert/strict";
import { test } from "node:test";
import { Fault } from "@cocoon/core";
import { tryReadImageUrl } from "./image-url.ts";

const hex = "0123456789abcdef".repeat(4);

test("URLs and paths are distinguished from references", () => {
  assert.deepEqual(tryReadImageUrl("https://x.example/a.qcow2"), { url: "https://x.example/a.qcow2" });
  assert.deepEqual(tryReadImageUrl("/srv/a.img"), { url: "/srv/a.img", path: "/srv/a.img" });
  assert.deepEqual(tryReadImageUrl("file:///srv/a%20b.img"), {
    url: "file:///srv/a%20b.img",
    path: "/srv/a b.img",
  });
  for (const ref of ["alpine", "ghcr.io/x/y:24.04", `x@sha256:${hex}`, "cocoon-demo"]) {
    assert.equal(tryReadImageUrl(ref), undefined, ref);
  }
});

test("a checksum behind # is not part of the address", () => {
  assert.deepEqual(tryReadImageUrl(`https://x.example/a?b=c#sha256=${hex.toUpperCase()}`), {
    url: "https://x.example/a?b=c",
    checksum: { algorithm: "sha256", hex },
  });
  assert.deepEqual(tryReadImageUrl(`/a#sha512:${hex}${hex}`)?.checksum, {
    algorithm: "sha512",
    hex: hex + hex,
  });
});

for (const bad of ["/a#md5=00", `/a#sha256=${hex}0`, "/a#", "https://", "https://me:secret@x.example/a"]) {
  test(`${bad} is refused`, () => {
    assert.throws(
      () => tryReadImageUrl(bad),
      (error) => error instanceof Fault && error.code === "invalid",
    );
  });
}
