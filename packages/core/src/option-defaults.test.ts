import assert from "node:assert/strict";
import { test } from "node:test";
import { stateDefaults } from "./option-defaults.ts";

test("every option states its default once", () => {
  const option = (description: string, required: boolean, defaultValue?: unknown) => ({
    description,
    required,
    optional: false,
    defaultValue,
  });
  const options = [
    option("a flag", false),
    option("a value", true),
    option("a value (default: the host's)", true),
    option("shown by the parser", true, "1"),
    option("accepted, not used", true),
  ];
  const nested = [option("deep", false)];
  stateDefaults({ options, commands: [{ options: nested, commands: [] }] });
  assert.deepEqual(
    [...options, ...nested].map(({ description }) => description),
    [
      "a flag (default: off)",
      "a value (default: none)",
      "a value (default: the host's)",
      "shown by the parser",
      "accepted, not used",
      "deep (default: off)",
    ],
  );
});
