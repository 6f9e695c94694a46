/** Snapshots in a real registry: what is dropped, renamed and kept, and what happens when the registry is away. */
import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { manifestAnnotation, mediaType, releasedTag } from "@cocoon/contract";
import { isFault } from "@cocoon/core";
import { fixedCredential, openRegistry, type Registry } from "@cocoon/oci";
import { SnapshotStore } from "@cocoon/operator";
import { startRegistry } from "@cocoon/registry";
import { startRegistrySwitch } from "./faults.ts";

const { signal } = new AbortController();
const vmName = "vk-lab-a-0";

async function open() {
  const stack = new AsyncDisposableStack();
  const server = stack.use(await startRegistry({ storage: { kind: "memory" } }));
  const way = stack.use(await startRegistrySwitch(server.url));
  const credentials = fixedCredential({ kind: "bearer", token: await server.createToken({ name: "t" }) });
  const registry = stack.use(openRegistry({ address: way.url, credentials, retry: { attempts: 1 } }));
  return {
    store: new SnapshotStore(registry),
    registry,
    way,
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

async function push(registry: Registry, tag: string, created: string): Promise<string> {
  const repository = registry.repository(vmName);
  const bytes = Buffer.from("{}");
  const digest = "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";
  const content = async function* () {
    yield await Promise.resolve(bytes);
  };
  await repository.putBlob({ digest, size: bytes.length, open: content }, { signal });
  const manifest = {
    schemaVersion: 2,
    mediaType: mediaType.ociManifest,
    config: { mediaType: mediaType.snapshotConfig, digest, size: bytes.length },
    layers: [],
    annotations: { [manifestAnnotation.created]: created, tag },
  };
  const body = { bytes: Buffer.from(JSON.stringify(manifest)), mediaType: mediaType.ociManifest };
  return repository.putManifest(tag, body, { signal });
}

async function tagsOf(registry: Registry): Promise<Record<string, string | undefined>> {
  const repository = registry.repository(vmName);
  const tags = (await Array.fromAsync(repository.tags({ signal }))).sort();
  const heads = await Promise.all(
    tags.map(async (tag) => [tag, (await repository.headManifest(tag, { signal }))?.digest]),
  );
  return Object.fromEntries(heads) as Record<string, string | undefined>;
}

const early = "2026-01-01T00:00:00Z";
const late = "2026-02-01T00:00:00Z";

suite("snapshots", () => {
  test("a copy is dropped by its digest only, and what else names it survives", async () => {
    await using world = await open();
    const digest = await push(world.registry, "hibernate", early);
    await world.store.drop(vmName, `sha256:${"0".repeat(64)}`, { signal });
    assert.deepEqual(
      await tagsOf(world.registry),
      { hibernate: digest },
      "another digest is not ours to drop",
    );
    await push(world.registry, "hibernate", early);
    await world.store.settle({ vmName, keep: true, purge: false }, { signal });
    assert.deepEqual(await tagsOf(world.registry), { latest: digest });
    await world.store.drop(vmName, digest, { signal });
    assert.deepEqual(await tagsOf(world.registry), { latest: digest }, "no sleeping copy, nothing dropped");
  });

  test("what a released machine slept in gets another name, once", async () => {
    await using world = await open();
    const digest = await push(world.registry, "hibernate", early);
    const at = new Date("2026-03-01T00:00:00Z");
    assert.equal(await world.store.release(vmName, at, { signal }), digest);
    assert.equal(await world.store.release(vmName, at, { signal }), undefined);
    assert.deepEqual(await tagsOf(world.registry), { [releasedTag(at)]: digest });
  });

  test("of a deleted set the newest copy is kept as latest", async () => {
    for (const [asleep, latest] of [
      [late, early],
      [early, late],
    ] as const) {
      await using world = await open();
      const old = await push(world.registry, "latest", latest);
      const sleeping = await push(world.registry, "hibernate", asleep);
      await world.store.settle({ vmName, keep: true, purge: false }, { signal });
      assert.deepEqual(await tagsOf(world.registry), { latest: asleep > latest ? sleeping : old });
      await world.store.settle({ vmName, keep: false, purge: false }, { signal });
      assert.deepEqual(await tagsOf(world.registry), {});
    }
  });

  test("purge removes everything", async () => {
    await using world = await open();
    await push(world.registry, "latest", early);
    await push(world.registry, "hibernate", late);
    await push(world.registry, "released-20260101T000000Z", early);
    await world.store.settle({ vmName, keep: true, purge: true }, { signal });
    assert.deepEqual(await tagsOf(world.registry), {});
  });

  test("a registry that is away is 'could not ask', at once after a few times, and asked again later", async () => {
    await using world = await open();
    world.way.down = true;
    for (let attempt = 0; attempt < 8; attempt += 1)
      await assert.rejects(world.store.sleeping(vmName, { signal }), (error) =>
        isFault(error, "unavailable"),
      );
    await assert.rejects(world.store.sleeping(vmName, { signal }), /does not answer/);
  });
});
