/** What the webhook looks up in a registry, against one that speaks the protocol. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { hibernateTag, manifestAnnotation, tryReadReleasedTag } from "@cocoon/contract";
import { silentLogger } from "@cocoon/core";
import { computeDigest, openRegistry, type Registry } from "@cocoon/oci";
import { startFakeRegistry, type FakeRegistry } from "@cocoon/oci/testing";
import { snapshotsIn } from "./registry.ts";

const signal = new AbortController().signal;
const options = { signal };

/** As if a kubelet had pushed it. */
function putSnapshot(server: FakeRegistry, vmName: string, namespace = "ns"): string {
  const mediaType = "application/vnd.oci.image.manifest.v1+json";
  const config = {
    mediaType: "application/vnd.oci.empty.v1+json",
    digest: computeDigest(Buffer.from("{}")),
    size: 2,
  };
  const annotations = { [manifestAnnotation.namespace]: namespace };
  const bytes = Buffer.from(JSON.stringify({ schemaVersion: 2, mediaType, config, layers: [], annotations }));
  const digest = computeDigest(bytes);
  server.repos.set(vmName, {
    blobs: new Map(),
    manifests: new Map([[digest, { bytes, mediaType }]]),
    tags: new Map([[hibernateTag, digest]]),
  });
  return digest;
}

test("a machine is hibernated in the registry or not; an unavailable registry proves nothing", async () => {
  await using server = await startFakeRegistry();
  await using registry = openRegistry({ address: server.url, plainHttp: true });
  const snapshots = snapshotsIn(registry, silentLogger);
  assert.equal(await snapshots.isHibernated("vk-ns-demo-0", options), false);
  putSnapshot(server, "vk-ns-demo-0");
  assert.equal(await snapshots.isHibernated("vk-ns-demo-0", options), true);
  assert.equal(await snapshots.isHibernated("Not A Name", options), false);
  await server[Symbol.asyncDispose]();
  assert.equal(await snapshots.isHibernated("vk-ns-demo-0", options), false);
});

test("the snapshot of a released slot is retagged with its time, and nothing else is touched", async () => {
  await using server = await startFakeRegistry();
  await using registry = openRegistry({ address: server.url, plainHttp: true });
  const snapshots = snapshotsIn(registry, silentLogger);
  await snapshots.release({ vmName: "vk-ns-demo-0", namespace: "ns" }, { signal });
  const digest = putSnapshot(server, "vk-ns-demo-0");
  await snapshots.release({ vmName: "vk-ns-demo-0", namespace: "ns" }, { signal });
  const tags: string[] = [];
  for await (const tag of registry.repository("vk-ns-demo-0").tags({ signal })) tags.push(tag);
  assert.equal(tags.length, 1);
  assert.ok(tryReadReleasedTag(tags[0] ?? ""));
  const head = await registry.repository("vk-ns-demo-0").headManifest(tags[0] ?? "", { signal });
  assert.equal(head?.digest, digest);
  assert.equal(await snapshots.isHibernated("vk-ns-demo-0", options), false);
});

test("the snapshot of another namespace's machine of the same name is not retagged", async () => {
  await using server = await startFakeRegistry();
  await using registry = openRegistry({ address: server.url, plainHttp: true });
  const digest = putSnapshot(server, "vk-a-b-c-0", "a");
  await snapshotsIn(registry, silentLogger).release({ vmName: "vk-a-b-c-0", namespace: "a-b" }, { signal });
  const repository = registry.repository("vk-a-b-c-0");
  assert.deepEqual(await Array.fromAsync(repository.tags({ signal })), [hibernateTag]);
  assert.equal((await repository.headManifest(hibernateTag, { signal }))?.digest, digest);
});

test("a retag that the registry did not keep is not trusted: the snapshot stays", async () => {
  await using server = await startFakeRegistry();
  await using registry = openRegistry({ address: server.url, plainHttp: true });
  const digest = putSnapshot(server, "vk-ns-demo-0");
  const forgetful: Registry = Object.assign(Object.create(registry) as Registry, {
    repository: (name: string) => {
      const repository = registry.repository(name);
      // Answered, but not stored.
      return new Proxy(repository, {
        get: (target, key) => {
          if (key === "putManifest") return () => Promise.resolve(digest);
          const member: unknown = Reflect.get(target, key);
          return typeof member === "function" ? (member.bind(target) as unknown) : member;
        },
      });
    },
  });
  await assert.rejects(
    snapshotsIn(forgetful, silentLogger).release({ vmName: "vk-ns-demo-0", namespace: "ns" }, { signal }),
  );
  const head = await registry.repository("vk-ns-demo-0").headManifest(hibernateTag, { signal });
  assert.equal(head?.digest, digest);
});

test("an image is absent only when the registry says so", async () => {
  await using server = await startFakeRegistry();
  await using registry = openRegistry({ address: server.url, plainHttp: true });
  const { isAbsent } = snapshotsIn(registry, silentLogger);
  putSnapshot(server, "team/base");
  assert.equal(await isAbsent?.({ repository: "team/base", tag: hibernateTag }, options), false);
  assert.equal(await isAbsent?.({ repository: "team/base", tag: "v9" }, options), true);
  assert.equal(await isAbsent?.({ repository: "team/other", tag: "v9" }, options), true);
  await server[Symbol.asyncDispose]();
  assert.equal(await isAbsent?.({ repository: "team/other", tag: "v9" }, options), false, "could not ask");
});
