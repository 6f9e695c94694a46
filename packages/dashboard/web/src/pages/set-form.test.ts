import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { parse } from "yaml";
import { buildSet, emptyForm, toYaml } from "./set-form.ts";

test("the YAML of a form is the object of the form, whatever is typed", () => {
  fc.assert(
    fc.property(fc.string(), fc.string(), (name, image) => {
      const set = buildSet({ ...emptyForm, name, image });
      assert.deepEqual(parse(toYaml(set)), set);
    }),
  );
});
