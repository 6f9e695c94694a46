import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import {
  buildSetClaim,
  findCollision,
  listCollisions,
  findNameProblems,
  findVmNameProblem,
  type NameClaim,
} from "./name-claims.ts";
import { podName, podVmName, vmName } from "./vm-name.ts";

const pod = (namespace: string, name: string): NameClaim => ({
  owner: `Pod ${namespace}/${name}`,
  names: [podVmName(namespace, name)],
});
const set = (namespace: string, name: string, toolboxes: readonly string[] = []) =>
  buildSetClaim({ namespace, name, toolboxes });

test("owners that would share a machine name", () => {
  const table: readonly (readonly [NameClaim, NameClaim, string | undefined])[] = [
    [set("a-b", "c"), set("a", "b-c"), "vk-a-b-c-0"],
    [set("lab", "demo", ["x-0"]), set("lab", "demo-x"), "vk-lab-demo-x-0"],
    [set("lab", "demo", ["x-12"]), set("lab", "demo-x"), "vk-lab-demo-x-12"],
    [set("lab", "demo", ["x-y"]), set("lab", "demo-x", ["y"]), "vk-lab-demo-x-y"],
    [
      set("lab", "demo"),
      { owner: "Deployment lab/demo", slotPrefix: "vk-lab-demo-", names: [] },
      "vk-lab-demo-0",
    ],
    [pod("lab", "demo-3"), set("lab", "demo"), "vk-lab-demo-3"],
    [pod("lab", "demo-shell"), set("lab", "demo", ["shell"]), "vk-lab-demo-shell"],
    [pod("a-b", "c"), pod("a", "b-c"), "vk-a-b-c"],
    [set("lab", "demo", ["x"]), set("lab", "demo-x"), undefined],
    [set("lab", "demo", ["x-007"]), set("lab", "demo-x"), undefined],
    [set("lab", "demo"), set("lab", "demo2"), undefined],
    [set("lab", "demo"), set("prod", "demo"), undefined],
    [pod("lab", "demo-x"), set("lab", "demo"), undefined],
  ];
  for (const [left, right, name] of table) {
    const what = `${left.owner} and ${right.owner}`;
    for (const found of [findCollision(left, right), findCollision(right, left)])
      if (name === undefined) assert.equal(found, undefined, what);
      else
        assert.match(
          found ?? "",
          new RegExp(`^machine name "${name}" would belong to both .*; rename one`),
          what,
        );
  }
});

test("an owner does not collide with its own earlier self", () => {
  const others = [set("lab", "demo"), set("lab", "demo-x"), set("lab", "free")];
  assert.deepEqual(listCollisions(set("lab", "demo", ["x-0"]), others), [
    'machine name "vk-lab-demo-x-0" would belong to both CocoonSet lab/demo and CocoonSet lab/demo-x; rename one of them',
  ]);
});

const word = fc.stringMatching(/^[ab0]([-ab0]{0,3}[ab0])?$/);
const owner = fc.record({ namespace: word, name: word, toolboxes: fc.uniqueArray(word, { maxLength: 2 }) });

test("a collision is found exactly when two owners make the same name", () => {
  const slots = Array.from({ length: 101 }, (_, slot) => slot);
  const names = ({ namespace, name, toolboxes }: { namespace: string; name: string; toolboxes: string[] }) =>
    [...slots, ...toolboxes].map((member) => vmName({ namespace, set: name }, member));
  fc.assert(
    fc.property(owner, owner, (left, right) => {
      const shared = names(left).some((name) => names(right).includes(name));
      assert.equal(findCollision(buildSetClaim(left), buildSetClaim(right)) !== undefined, shared);
    }),
    { numRuns: 2_000 },
  );
});

test("names too long or unusable are named with their field", () => {
  assert.deepEqual(
    findNameProblems({ namespace: "lab", name: "atlas", replicas: 9, toolboxes: ["browser"] }),
    [],
  );
  const longest = "n".repeat(63 - "vk-lab--9".length);
  assert.deepEqual(findNameProblems({ namespace: "lab", name: longest, replicas: 9 }), []);
  assert.match(
    findNameProblems({ namespace: "lab", name: longest, replicas: 10 }).join(),
    /^spec\.agent\.replicas 10 makes the machine name "vk-lab-n+-10" 64 characters long; the limit is 63/,
  );
  const problems = findNameProblems({
    namespace: "lab",
    name: "n".repeat(64),
    toolboxes: ["7", "A", "t".repeat(60)],
  });
  assert.match(
    problems.join("\n"),
    /^metadata\.name must be no more than 63 characters because it becomes a label/,
  );
  assert.ok(
    problems.some((text) => text.startsWith('spec.toolboxes[0].name "7" must not be purely numeric')),
  );
  assert.ok(problems.some((text) => text === 'spec.toolboxes[1].name "A" is not an RFC 1123 label'));
  assert.ok(problems.some((text) => text.startsWith('spec.toolboxes[2].name "ttt')));
});

test("a machine name of unknown origin is judged as well", () => {
  assert.equal(findVmNameProblem(podVmName("lab", podName("web", 0))), undefined);
  assert.match(findVmNameProblem("a b") ?? "", /may hold only letters/);
  assert.match(findVmNameProblem("") ?? "", /may hold only letters/);
  assert.match(findVmNameProblem("x".repeat(64)) ?? "", /64 characters long/);
});
