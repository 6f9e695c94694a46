import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { ApiError } from "../http/answer.ts";
import { buildBody, planSteps } from "./build-steps.ts";

const hash = "a".repeat(64);

test("each step runs with the user, directory and environment of the steps before it", () => {
  const { steps, env, user, directory } = planSteps({
    steps: [
      { type: "ENV", args: ["A", "1", "B", "2"] },
      { type: "WORKDIR", args: ["/srv"] },
      { type: "RUN", args: ["make"] },
      { type: "USER", args: ["user"] },
      { type: "WORKDIR", args: ["app"] },
      { type: "COPY", args: ["src", "dest", "root", "0644"], filesHash: hash },
      { type: "RUN", args: ["id", "root"] },
    ],
  });
  assert.deepEqual(
    steps.map((step) => [step.number, step.action.kind, step.user, step.directory, step.env["A"]]),
    [
      [2, "run", "root", "/", "1"],
      [3, "run", "user", "/srv", "1"],
      [5, "run", "root", "/", "1"],
      [6, "copy", "root", "/srv/app", "1"],
      [7, "run", "root", "/srv/app", "1"],
    ],
  );
  assert.deepEqual([env, user, directory], [{ A: "1", B: "2" }, "user", "/srv/app"]);
});

test("what cannot be done is refused with the number of its step", () => {
  const refuses = (step: object, why: RegExp) =>
    assert.throws(() => planSteps(buildBody.parse({ steps: [{ type: "RUN", args: ["true"] }, step] })), why);
  refuses({ type: "HEALTHCHECK", args: [] }, /steps\[1\] HEALTHCHECK: not offered/);
  refuses({ type: "RUN", args: [] }, /command is missing/);
  refuses({ type: "ENV", args: ["A"] }, /no value/);
  refuses({ type: "ENV", args: ["A B", "1"] }, /no name of a variable/);
  refuses({ type: "USER", args: ["a b"] }, /no user name/);
  refuses({ type: "COPY", args: ["a", "b"], filesHash: "../x" }, /no SHA-256/);
});

test("whatever is sent is a plan or 400", () => {
  const step = fc.record({
    type: fc.constantFrom("RUN", "COPY", "ENV", "WORKDIR", "USER", "X"),
    args: fc.array(fc.string()),
  });
  fc.assert(
    fc.property(fc.array(step), (steps) => {
      try {
        for (const { user } of planSteps({ steps }).steps) assert.match(user, /^[\w.-]*$/);
      } catch (error) {
        assert.ok(error instanceof ApiError && error.status === 400);
      }
    }),
  );
});
