/** The generated CRDs on the real API server: what it takes, what it refuses and with which words, what it fills in. */
import assert from "node:assert/strict";
import { before, test } from "node:test";
import { apiVersion } from "@cocoon/contract";
import {
  agentCases,
  hibernationCases,
  setCases,
  toolboxCases,
  type SchemaCase,
} from "@cocoon/contract/testing";
import { sharedControlPlane, type TestCluster } from "@cocoon/testkit";
import { openApi, type Answer, type Api } from "./api.ts";
import { installCrds } from "./install-crds.ts";

let cluster: TestCluster;

before(async () => {
  cluster = await sharedControlPlane();
  await installCrds(cluster);
});

const kinds = [
  { kind: "CocoonSet", plural: "cocoonsets", cases: [...agentCases, ...toolboxCases, ...setCases] },
  { kind: "CocoonHibernation", plural: "cocoonhibernations", cases: hibernationCases },
] as const;

test("enough cases are known, refused and accepted ones", () => {
  const all = kinds.flatMap(({ cases }) => cases);
  assert.ok(all.length >= 120, `${all.length} cases`);
  assert.ok(all.filter((each) => each.refused).length >= 50);
  assert.ok(all.filter((each) => !each.refused).length >= 50);
});

for (const { kind, plural, cases } of kinds) {
  test(`the API server judges every ${kind} as the table says`, async () => {
    await using namespace = await cluster.newNamespace();
    using api = openApi(cluster);
    const collection = `/apis/${apiVersion}/namespaces/${namespace.name}/${plural}`;
    const wrong: string[] = [];
    for (const [index, each] of cases.entries()) {
      const name = each.objectName ?? `case-${index}`;
      const answer = await offer(api, { collection, kind, name, each });
      const problem = findProblem(answer, each);
      if (problem) wrong.push(`${each.name}: ${problem}`);
    }
    assert.deepEqual(wrong, []);
  });
}

interface Offer {
  readonly collection: string;
  readonly kind: string;
  readonly name: string;
  readonly each: SchemaCase;
}

async function offer(api: Api, { collection, kind, name, each }: Offer): Promise<Answer> {
  const object = (spec: unknown, metadata: object = {}) => ({
    apiVersion,
    kind,
    metadata: { name, ...metadata },
    spec,
  });
  if (each.from === undefined) return api.call({ method: "POST", path: collection, body: object(each.spec) });
  const created = await api.call({ method: "POST", path: collection, body: object(each.from) });
  assert.equal(created.status, 201, `${each.name}: ${created.message}`);
  const { resourceVersion } = created.body.metadata ?? {};
  return api.call({
    method: "PUT",
    path: `${collection}/${name}`,
    body: object(each.spec, { resourceVersion }),
  });
}

function findProblem({ status, message, body }: Answer, each: SchemaCase): string | undefined {
  if (each.refused === undefined) {
    if (status !== 200 && status !== 201) return `refused: ${message}`;
    return each.filled === undefined || isPart(each.filled, body.spec)
      ? undefined
      : `stored ${JSON.stringify(body.spec)}, which lacks ${JSON.stringify(each.filled)}`;
  }
  if (status !== 422) return `answered ${status}`;
  const missing = each.refused.filter((text) => !message.includes(text));
  return missing.length === 0 ? undefined : `said "${message}", not "${missing.join('", "')}"`;
}

function isPart(part: unknown, whole: unknown): boolean {
  if (typeof part !== "object" || part === null) return part === whole;
  if (typeof whole !== "object" || whole === null) return false;
  return Object.entries(part).every(([key, value]) => isPart(value, (whole as Record<string, unknown>)[key]));
}
