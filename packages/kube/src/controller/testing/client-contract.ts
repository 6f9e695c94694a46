/**
 * What controllers rely on when they talk to the API server, as tests: the real one and the one in memory must pass
 * them alike.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { isFault, type FaultCode } from "@cocoon/core";
import { configMaps } from "../../builtin.ts";
import type { ConfigMap } from "../../builtin-objects.ts";
import type { KubeClient } from "../../client/client.ts";
import { isReplaced } from "../../client/errors.ts";
import type { KubeObject } from "../../object.ts";

export interface ContractStage extends AsyncDisposable {
  readonly client: KubeClient;
  /** Exists, and is the test's own. */
  readonly namespace: string;
}

const refused = (code: FaultCode) => (error: unknown) => isFault(error, code);

export function kubeClientContract(name: string, open: () => Promise<ContractStage>): void {
  const options = { signal: new AbortController().signal };

  async function withObject(
    metadata: Partial<KubeObject["metadata"]>,
    run: (
      client: KubeClient,
      object: ConfigMap,
      key: { readonly namespace: string; readonly name: string },
    ) => Promise<void>,
  ): Promise<void> {
    await using stage = await open();
    const { client, namespace } = stage;
    const key = { namespace, name: "thing" };
    const object = await client.create(
      configMaps,
      { metadata: { ...key, ...metadata }, data: { a: "1" } },
      options,
    );
    await run(client, object, key);
  }

  describe(`API server as controllers see it: ${name}`, () => {
    it("keeps names unique, and knows what is not there", () =>
      withObject({}, async (client, object, key) => {
        assert.ok(object.metadata.uid && object.metadata.resourceVersion);
        await assert.rejects(client.create(configMaps, { metadata: key }, options), refused("alreadyExists"));
        const missing = { ...key, name: "missing" };
        await assert.rejects(client.get(configMaps, missing, options), refused("notFound"));
        await assert.rejects(client.delete(configMaps, missing, options), refused("notFound"));
        const patch = { type: "merge", body: { data: { a: "2" } } } as const;
        await assert.rejects(client.patch(configMaps, { key: missing, patch }, options), refused("notFound"));
      }));

    it("refuses to replace a version that is not the newest, and another object", () =>
      withObject({}, async (client, object, key) => {
        const newer = await client.update(configMaps, { ...object, data: { a: "2" } }, options);
        assert.notEqual(newer.metadata.resourceVersion, object.metadata.resourceVersion);
        await assert.rejects(
          client.update(configMaps, { ...object, data: { a: "3" } }, options),
          refused("conflict"),
        );
        await client.delete(configMaps, key, options);
        await client.create(configMaps, { metadata: key }, options);
        await assert.rejects(client.update(configMaps, newer, options), refused("conflict"));
      }));

    it("leaves the version alone when nothing changes", () =>
      withObject({}, async (client, object, key) => {
        const patch = { type: "merge", body: { data: { a: "1" } } } as const;
        const same = await client.patch(configMaps, { key, patch }, options);
        assert.equal(same.metadata.resourceVersion, object.metadata.resourceVersion);
      }));

    it("merges patches, and checks the version and UID they name", () =>
      withObject({}, async (client, object, key) => {
        const send = (body: unknown) =>
          client.patch(configMaps, { key, patch: { type: "merge", body } }, options);
        const { uid, resourceVersion } = object.metadata;
        const changed = await send({ data: { b: "2", a: null }, metadata: { uid } });
        assert.deepEqual(changed.data, { b: "2" });
        await assert.rejects(send({ data: { c: "3" }, metadata: { resourceVersion } }), refused("conflict"));
        const other = "00000000-0000-4000-8000-000000000000";
        await assert.rejects(send({ metadata: { uid: other } }), isReplaced);
      }));

    it("applies JSON patches whole or not at all; a failed test is invalid", () =>
      withObject({ finalizers: ["example.io/a"] }, async (client, object, key) => {
        const send = (value: string) =>
          client.patch(
            configMaps,
            {
              key,
              patch: {
                type: "json",
                body: [
                  { op: "add", path: "/metadata/finalizers/-", value: "example.io/b" },
                  { op: "test", path: "/metadata/uid", value },
                ],
              },
            },
            options,
          );
        await assert.rejects(send("another"), refused("invalid"));
        assert.deepEqual((await client.get(configMaps, key, options)).metadata.finalizers, ["example.io/a"]);
        const both = await send(object.metadata.uid ?? "");
        assert.deepEqual(both.metadata.finalizers, ["example.io/a", "example.io/b"]);
        const drop = { type: "json", body: [{ op: "remove", path: "/metadata/finalizers" }] } as const;
        await client.patch(configMaps, { key, patch: drop }, options);
      }));

    it("keeps a deleted object until its finalizers are gone, and deletes by UID and version", () =>
      withObject({ finalizers: ["example.io/a"] }, async (client, object, key) => {
        const wrong = { ...options, preconditions: { uid: "another" } };
        await assert.rejects(client.delete(configMaps, key, wrong), refused("conflict"));
        const older = { ...options, preconditions: { resourceVersion: "1" } };
        await assert.rejects(client.delete(configMaps, key, older), refused("conflict"));
        await client.delete(configMaps, key, {
          ...options,
          preconditions: { uid: object.metadata.uid ?? "" },
        });
        const going = await client.get(configMaps, key, options);
        assert.ok(going.metadata.deletionTimestamp);
        const drop = { type: "json", body: [{ op: "remove", path: "/metadata/finalizers/0" }] } as const;
        await client.patch(configMaps, { key, patch: drop }, options);
        await assert.rejects(client.get(configMaps, key, options), refused("notFound"));
      }));
  });
}
