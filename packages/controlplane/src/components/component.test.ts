import assert from "node:assert/strict";
import { test } from "node:test";
import { dependencyGroups } from "./component.ts";

const names = (groups: { name: string }[][]) => groups.map((group) => group.map((each) => each.name));

test("what needs nothing starts first, the rest as soon as it can", () => {
  const groups = dependencyGroups([
    { name: "scheduler", needs: ["apiserver"] },
    { name: "apiserver", needs: ["etcd"] },
    { name: "etcd", needs: [] },
    { name: "registry", needs: [] },
    { name: "operator", needs: ["apiserver", "registry"] },
  ]);
  assert.deepEqual(names(groups), [["etcd", "registry"], ["apiserver"], ["scheduler", "operator"]]);
});

test("a need that is not in the list does not block", () => {
  assert.deepEqual(names(dependencyGroups([{ name: "operator", needs: ["apiserver"] }])), [["operator"]]);
});

test("a circle is refused and named", () => {
  assert.throws(
    () =>
      dependencyGroups([
        { name: "a", needs: ["b"] },
        { name: "b", needs: ["a"] },
      ]),
    /circle: a, b/,
  );
});
