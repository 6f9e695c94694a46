/** Our quantities against the API server's own: the text it stores, and sums, differences and order as it computes them. */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { test } from "node:test";
import {
  addQuantities,
  canonicalQuantity,
  compareQuantities,
  formatQuantity,
  parseQuantity,
  subtractQuantities,
  quantityMillis,
  type Quantity,
} from "@cocoon/core/quantity";
import { count, eventually, seededRandom, sharedControlPlane, testSeed } from "@cocoon/testkit";
import { openApi, type Api } from "./api.ts";

const random = seededRandom(testSeed());
const below = (limit: number) => Math.floor(random() * limit);
const suffixes = ["", "n", "u", "m", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti", "e3", "e-3", "E2"];

function randomQuantity(): string {
  const digits = String(below(10 ** (1 + below(7))));
  const fraction = below(3) === 0 ? `.${String(below(10 ** (1 + below(6))))}` : "";
  const zeros = "0".repeat(below(3) === 0 ? below(7) : 0);
  return `${digits}${zeros}${fraction}${suffixes[below(suffixes.length)] ?? ""}`;
}

/** Reading a binary quantity caps it at 2^63-1; sums must stay below. */
function smallQuantity(): string {
  const text = randomQuantity();
  return parseQuantity(text).nanos < 2n ** 61n * 1_000_000_000n ? text : smallQuantity();
}

test("a pod's resources come back as we would write them", async () => {
  const cluster = await sharedControlPlane();
  await using namespace = await cluster.newNamespace();
  using api = openApi(cluster);
  for (let round = 0; round < count({ small: 4, full: 60 }); round += 1) {
    const sent = Array.from({ length: 50 }, randomQuantity);
    const answer = await api.call({
      method: "POST",
      path: `/api/v1/namespaces/${namespace.name}/pods?dryRun=All`,
      body: {
        metadata: { name: "amounts" },
        spec: {
          containers: sent.map((memory, index) => ({
            name: `c${index}`,
            image: "x",
            resources: { limits: { memory } },
          })),
        },
      },
    });
    assert.equal(answer.status, 201, answer.message);
    const { containers } = answer.body.spec as {
      containers: { resources: { limits: { memory: string } } }[];
    };
    for (const [index, text] of sent.entries())
      assert.equal(
        containers[index]?.resources.limits.memory,
        formatQuantity(roundAsInPods(parseQuantity(text))),
        text,
      );
  }
});

/** Rounded up to thousandths, as the API server does with the resources of pods. */
function roundAsInPods(quantity: Quantity): Quantity {
  if (quantity.nanos % 1_000_000n === 0n) return quantity;
  return { nanos: quantityMillis(quantity) * 1_000_000n, format: quantity.format };
}

function arithmeticDefinition(group: string) {
  const text = { type: "string", maxLength: 64 };
  const is = (left: string, right: string) => `${left}.compareTo(quantity(self.${right})) == 0`;
  return {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: `sums.${group}` },
    spec: {
      group,
      scope: "Namespaced",
      names: { kind: "Sum", plural: "sums" },
      versions: [
        {
          name: "v1",
          served: true,
          storage: true,
          schema: {
            openAPIV3Schema: {
              type: "object",
              properties: {
                spec: {
                  type: "object",
                  required: ["a", "b", "sum", "difference", "order"],
                  properties: { a: text, b: text, sum: text, difference: text, order: { type: "integer" } },
                  "x-kubernetes-validations": [
                    { rule: is("quantity(self.a).add(quantity(self.b))", "sum"), message: "wrong sum" },
                    {
                      rule: is("quantity(self.a).sub(quantity(self.b))", "difference"),
                      message: "wrong difference",
                    },
                    {
                      rule: "quantity(self.a).compareTo(quantity(self.b)) == self.order",
                      message: "wrong order",
                    },
                  ],
                },
              },
            },
          },
        },
      ],
    },
  };
}

test("sums, differences and order are what the API server computes", async () => {
  const cluster = await sharedControlPlane();
  await using namespace = await cluster.newNamespace();
  using api = openApi(cluster);
  const group = `x${randomBytes(4).toString("hex")}.quantity.test`;
  const made = await cluster.kubectl(["create", "-f", "-"], {
    input: JSON.stringify(arithmeticDefinition(group)),
  });
  assert.equal(made.code, 0, made.stderr);
  try {
    const offer = (spec: Readonly<Record<string, unknown>>) =>
      judge(api, `/apis/${group}/v1/namespaces/${namespace.name}/sums?dryRun=All`, {
        apiVersion: `${group}/v1`,
        kind: "Sum",
        metadata: { name: "sum" },
        spec,
      });
    const zero = { a: "0", b: "0", sum: "0", difference: "0", order: 0 };
    await eventually(async () => assert.equal(await offer(zero), "accepted"), { timeoutMs: 60_000 });
    assert.match(
      await offer({ ...zero, sum: "1n", difference: "1n", order: 1 }),
      /wrong sum.*wrong difference.*wrong order/s,
    );
    for (let round = 0; round < count({ small: 100, full: 2_000 }); round += 1) {
      const [a, b] = [smallQuantity(), round % 10 === 0 ? `-${smallQuantity()}` : smallQuantity()];
      const [left, right] = [parseQuantity(a), parseQuantity(b)];
      const spec = {
        a,
        b,
        sum: canonicalQuantity(addQuantities(left, right)),
        difference: canonicalQuantity(subtractQuantities(left, right)),
        order: compareQuantities(left, right),
      };
      assert.equal(await offer(spec), "accepted", JSON.stringify(spec));
    }
  } finally {
    await cluster.kubectl(["delete", "crd", `sums.${group}`, "--wait=false"]);
  }
});

async function judge(api: Api, path: string, body: unknown): Promise<string> {
  const answer = await api.call({ method: "POST", path, body });
  return answer.status === 201 ? "accepted" : answer.message || `answered ${answer.status}`;
}
