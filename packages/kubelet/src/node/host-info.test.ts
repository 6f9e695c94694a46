import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { testSeed } from "@cocoon/testkit";
import { parseOsImage } from "./host-info.ts";

test("the name of the distribution is read with and without quotes", () => {
  assert.equal(
    parseOsImage('NAME="Debian"\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n'),
    "Debian GNU/Linux 12 (bookworm)",
  );
  assert.equal(parseOsImage("PRETTY_NAME=Alpine\nID=alpine"), "Alpine");
  assert.equal(parseOsImage(""), "Linux");
  assert.equal(parseOsImage('PRETTY_NAME=""'), "Linux");
});

test("any file gives one non-empty line", () => {
  fc.assert(
    fc.property(fc.string(), (text) => {
      const image = parseOsImage(`PRETTY_NAME=${text}`);
      assert.ok(image !== "" && !image.includes("\n"));
    }),
    { seed: testSeed() },
  );
});
