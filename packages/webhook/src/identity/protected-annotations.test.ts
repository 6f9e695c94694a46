import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { findChangedIdentity, protectedAnnotations } from "./protected-annotations.ts";

const manifests = join(import.meta.dirname, "../../../../deploy/webhook/base");

for (const file of ["identity-policy.yaml", "webhooks.yaml"])
  test(`${file} protects the same annotations`, () => {
    const text = readFileSync(join(manifests, file), "utf8").replaceAll(/\s+/g, " ");
    const lists = [...text.matchAll(/\[('[^\]]*')\]/g)].map(([, list = ""]) =>
      list.split(",").map((item) => item.trim().slice(1, -1)),
    );
    const longest = lists.toSorted((one, other) => other.length - one.length)[0] ?? [];
    assert.deepEqual(longest.toSorted(), protectedAnnotations.toSorted());
  });

test("adding, changing and removing a protected annotation is a change; anything else is not", () => {
  const name = "vm.cocoonstack.io/name";
  assert.deepEqual(findChangedIdentity(undefined, { [name]: "a" }), [name]);
  assert.deepEqual(findChangedIdentity({ [name]: "a" }, { [name]: "b" }), [name]);
  assert.deepEqual(findChangedIdentity({ [name]: "a" }, undefined), [name]);
  assert.deepEqual(findChangedIdentity({ [name]: "a", x: "1" }, { [name]: "a", x: "2" }), []);
});
