/** The rows about Reservations, over HTTP. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { ClusterColocationProfile } from "../kinds.ts";
import { patched, startTestWebhooks } from "../testing/webhook-server.ts";

const object = {
  metadata: { name: "r", labels: { pool: "x" } },
  spec: {
    template: {
      metadata: { labels: { a: "1" } },
      spec: { containers: [{ name: "c", resources: { requests: { cpu: "1" } } }] },
    },
  },
};

async function create(
  spec: NonNullable<ClusterColocationProfile["spec"]>,
  reservation: unknown = object,
): Promise<unknown> {
  await using webhooks = await startTestWebhooks({
    featureGates: "ReservationMutatingWebhook=true",
    profiles: [{ metadata: { name: "p" }, spec }],
  });
  const response = await webhooks.ask("/mutate-reservation", { object: reservation });
  assert.equal(response.allowed, true, response.status.message ?? "");
  return patched(reservation, response);
}

test("the namespace selector does not count, the selector does", async () => {
  const hit = { labels: { hit: "1" } };
  const labels = async (spec: object) => {
    const after = (await create({ ...hit, ...spec })) as { metadata: { labels: Record<string, string> } };
    return after.metadata.labels["hit"];
  };
  assert.equal(await labels({ namespaceSelector: { matchLabels: { no: "where" } } }), "1");
  assert.equal(await labels({ selector: { matchLabels: { pool: "x" } } }), "1");
  assert.equal(await labels({ selector: { matchLabels: { pool: "y" } } }), undefined);
});

test("an unusable profile that could select the Reservation is warned about", async () => {
  const broken = { key: "app", operator: "Perhaps" };
  for (const [pool, warnings] of [
    ["x", 1],
    ["y", 0],
  ] as const) {
    const selector = { matchLabels: { pool }, matchExpressions: [broken] };
    await using webhooks = await startTestWebhooks({
      featureGates: "ReservationMutatingWebhook=true",
      profiles: [{ metadata: { name: "bad" }, spec: { selector, labels: { hit: "1" } } }],
    });
    const response = await webhooks.ask("/mutate-reservation", { object });
    assert.deepEqual(patched(object, response), object);
    assert.equal(response.warnings?.length ?? 0, warnings, pool);
  }
});

test("metadata goes on the Reservation, placement into the template, resources stay", async () => {
  const after = await create({
    labels: { l: "1" },
    annotations: { n: "1" },
    qosClass: "BE",
    koordinatorPriority: 5,
    schedulerName: "s",
    priorityClassName: "koord-batch",
    patch: { spec: { ttl: "1h", template: { spec: { containers: [{ name: "c", image: "i" }] } } } },
  });
  assert.deepEqual(after, {
    metadata: {
      name: "r",
      labels: { pool: "x", l: "1", "koordinator.sh/qosClass": "BE", "koordinator.sh/priority": "5" },
      annotations: { n: "1" },
    },
    spec: {
      ttl: "1h",
      template: {
        metadata: { labels: { a: "1" } },
        spec: {
          containers: [{ name: "c", image: "i", resources: { requests: { cpu: "1" } } }],
          schedulerName: "s",
          priorityClassName: "koord-batch",
          priority: 5000,
          preemptionPolicy: "PreemptLowerPriority",
        },
      },
    },
  });
});

test("without a template there is no place for placement, and missing parents are made", async () => {
  const after = await create(
    { labels: { l: "1" }, schedulerName: "s", priorityClassName: "koord-batch" },
    { spec: {} },
  );
  assert.deepEqual(after, { metadata: { labels: { l: "1" } }, spec: {} });
});

test("only creations are changed", async () => {
  await using webhooks = await startTestWebhooks({
    featureGates: "ReservationMutatingWebhook=true",
    profiles: [{ metadata: { name: "p" }, spec: { labels: { l: "1" } } }],
  });
  const response = await webhooks.ask("/mutate-reservation", {
    operation: "UPDATE",
    object,
    oldObject: object,
  });
  assert.equal(response.patch, undefined);
});
