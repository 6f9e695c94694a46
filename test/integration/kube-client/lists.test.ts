import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { test } from "node:test";
import {
  configMaps,
  customResourceDefinitions,
  getKey,
  keyText,
  openCaches,
  pods,
  resourceType,
  watch,
  type KubeConnection,
  type KubeObject,
  type ListMethod,
  type OpenObject,
  type ResourceType,
} from "@cocoon/kube";
import { eventually, sharedControlPlane } from "@cocoon/testkit";
import { openClient, testLog } from "./access.ts";
import { fill } from "./churn.ts";

const { signal } = new AbortController();

interface Wanted {
  readonly namespace: string;
  readonly firstList: ListMethod;
  readonly managedFields?: boolean;
}

/** The first list of a watch, and the version at its end. */
async function firstList<T extends KubeObject>(
  client: KubeConnection,
  type: ResourceType<T>,
  wanted: Wanted,
) {
  const objects: T[] = [];
  const { firstList, ...options } = wanted;
  const tuning = { firstList, pageSize: 7 };
  for await (const event of watch(client, type, { ...options, tuning, signal })) {
    if (event.kind === "listed") objects.push(event.object);
    if (event.kind === "synced") return { objects: objects.toSorted(byKey), version: event.version };
  }
  throw new Error("the watch ended");
}

function byKey(one: KubeObject, other: KubeObject): number {
  return keyText(getKey(one)).localeCompare(keyText(getKey(other)));
}

test(
  "pages and streaming lists bring the same objects, of built-in and of custom kinds",
  { timeout: 300_000 },
  async () => {
    const cluster = await sharedControlPlane();
    await using namespace = await cluster.newNamespace();
    await using client = await openClient(cluster);
    const group = `t${randomBytes(4).toString("hex")}.example.com`;
    const widgets = resourceType<OpenObject>({
      group,
      version: "v1",
      kind: "Widget",
      plural: "widgets",
      namespaced: true,
    });
    const schema = { type: "object", "x-kubernetes-preserve-unknown-fields": true };
    const definition = {
      metadata: { name: `widgets.${group}` },
      spec: {
        group,
        scope: "Namespaced",
        names: { plural: "widgets", kind: "Widget" },
        versions: [{ name: "v1", served: true, storage: true, schema: { openAPIV3Schema: schema } }],
      },
    };
    await client.create(customResourceDefinitions, definition, { signal });
    await eventually(() => client.list(widgets, { signal }), { timeoutMs: 60_000 });
    const embedded = { metadata: { name: "inner", managedFields: [{ manager: "inner" }] } };
    for (let index = 0; index < 20; index += 1) {
      const metadata = { namespace: namespace.name, name: `widget-${index}` };
      await client.create(
        widgets,
        { metadata, aFieldBeforeMetadata: embedded, spec: { text: "grüße }] 🌍" } },
        { signal },
      );
    }
    await fill({ client, namespace: namespace.name, names: 20, signal });
    await client.create(
      pods,
      {
        metadata: { namespace: namespace.name, name: "pod" },
        spec: { schedulerName: "x", containers: [{ name: "c", image: "i" }] },
      },
      { signal },
    );
    for (const type of [configMaps, widgets, pods] as ResourceType<OpenObject>[]) {
      const options = { namespace: namespace.name };
      const whole = (await client.list(type, { ...options, signal })).items.toSorted(byKey);
      const bare = whole.map((item) => {
        const { managedFields: _dropped, ...metadata } = item.metadata;
        return { ...item, metadata };
      });
      for (const method of ["pages", "stream"] as const) {
        const kept = await firstList(client, type, { ...options, firstList: method });
        assert.deepEqual(kept.objects, whole, `${type.plural} ${method}`);
        const dropped = await firstList(client, type, {
          ...options,
          firstList: method,
          managedFields: false,
        });
        assert.deepEqual(dropped.objects, bare, `${type.plural} ${method} without managed fields`);
        assert.ok(BigInt(dropped.version) >= BigInt(whole.at(-1)?.metadata.resourceVersion ?? 0));
      }
    }
    await client.delete(customResourceDefinitions, { name: `widgets.${group}` }, { signal });
  },
);

test(
  "a kind whose definition comes later is watched from then on, and again when it comes back",
  { timeout: 300_000 },
  async () => {
    const cluster = await sharedControlPlane();
    await using namespace = await cluster.newNamespace();
    await using client = await openClient(cluster);
    const group = `t${randomBytes(4).toString("hex")}.example.com`;
    const widgets = resourceType<OpenObject>({
      group,
      version: "v1",
      kind: "Widget",
      plural: "widgets",
      namespaced: true,
    });
    await using caches = openCaches({ client, log: testLog });
    await using cache = caches.open(widgets, { namespace: namespace.name });
    assert.equal(cache.isSynced, false);
    const schema = { type: "object", "x-kubernetes-preserve-unknown-fields": true };
    const definition = {
      metadata: { name: `widgets.${group}` },
      spec: {
        group,
        scope: "Namespaced",
        names: { plural: "widgets", kind: "Widget" },
        versions: [{ name: "v1", served: true, storage: true, schema: { openAPIV3Schema: schema } }],
      },
    };
    for (const round of [1, 2]) {
      await client.create(customResourceDefinitions, definition, { signal });
      const metadata = { namespace: namespace.name, name: `widget-${round}` };
      await eventually(() => client.create(widgets, { metadata }, { signal }), { timeoutMs: 60_000 });
      await eventually(
        () =>
          assert.deepEqual(
            [...cache.list()].map((each) => each.metadata.name),
            [metadata.name],
          ),
        { timeoutMs: 90_000 },
      );
      await client.delete(customResourceDefinitions, { name: `widgets.${group}` }, { signal });
      await eventually(() => assert.equal(cache.size, 0), { timeoutMs: 90_000 });
      await eventually(
        () =>
          assert.rejects(client.get(customResourceDefinitions, { name: `widgets.${group}` }, { signal }), {
            code: "notFound",
          }),
        { timeoutMs: 60_000 },
      );
    }
  },
);
