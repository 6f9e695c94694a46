/** Our label selectors against the API server's own: the same objects must match. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { formatLabelSelector, matchesLabels, parseRequirements } from "@cocoon/core/label-selector";
import { count, seededRandom, sharedControlPlane, testSeed } from "@cocoon/testkit";
import { openApi } from "./api.ts";

const random = seededRandom(testSeed());
const pick = <Value>(values: readonly Value[]): Value =>
  values[Math.floor(random() * values.length)] as Value;
const keys = ["a", "b", "example.com/c", "d.e_f-g"];
const values = ["", "x", "y", "10", "9", "X.1_z"];

function randomExpression() {
  const key = pick(keys);
  const expressions = [
    { key, operator: "In", values: [pick(values)] },
    { key, operator: "In", values: [...new Set([pick(values), pick(values)])] },
    { key, operator: "NotIn", values: [pick(values)] },
    { key, operator: "NotIn", values: [...new Set([pick(values), pick(values)])] },
    { key, operator: "Exists" },
    { key, operator: "DoesNotExist" },
    { key, operator: "Gt", values: [pick(["9", "10"])] },
    { key, operator: "Lt", values: ["10"] },
  ];
  return pick(expressions);
}

test("a selector picks the objects that the API server picks, and is refused where the server refuses", async () => {
  const cluster = await sharedControlPlane();
  await using namespace = await cluster.newNamespace();
  using api = openApi(cluster);
  const path = `/api/v1/namespaces/${namespace.name}/configmaps`;
  const objects = Array.from({ length: 20 }, (_, index) => ({
    name: `object-${index}`,
    labels: Object.fromEntries(keys.filter(() => random() < 0.6).map((key) => [key, pick(values)])),
  }));
  for (const metadata of objects) {
    const made = await api.call({ method: "POST", path, body: { metadata } });
    assert.equal(made.status, 201, made.message);
  }
  const list = (selector: string) =>
    api.call({ method: "GET", path: `${path}?labelSelector=${encodeURIComponent(selector)}` });

  for (let round = 0; round < count({ small: 60, full: 1_000 }); round += 1) {
    const matchExpressions = Array.from({ length: 1 + Math.floor(random() * 3) }, randomExpression);
    const requirements = parseRequirements({ matchExpressions });
    const selector = formatLabelSelector(requirements);
    const answer = await list(selector);
    assert.equal(answer.status, 200, `${selector}: ${answer.message}`);
    const found = (answer.body["items"] as { metadata: { name: string } }[]).map(
      (item) => item.metadata.name,
    );
    const expected = objects
      .filter(({ labels }) => matchesLabels(requirements, labels))
      .map(({ name }) => name);
    // The server puts its root certificate into every namespace; it has no labels.
    assert.deepEqual(
      new Set(found.filter((name) => name.startsWith("object-"))),
      new Set(expected),
      selector,
    );
  }

  const refused = [
    { key: "a", operator: "In", values: ["-x"] },
    { key: "A B", operator: "In", values: ["c"] },
    { key: "a", operator: "Gt", values: ["x"] },
    { key: "-a", operator: "In", values: ["b"] },
  ];
  for (const expression of refused) {
    assert.throws(() => parseRequirements({ matchExpressions: [expression] }), { code: "invalid" });
    const [value = ""] = expression.values;
    const selector = `${expression.key}${expression.operator === "Gt" ? ">" : "="}${value}`;
    assert.equal((await list(selector)).status, 400, selector);
  }
});
