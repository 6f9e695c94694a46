/** What every registry must do for our client; run against the one in memory and against real ones. */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { describe, it } from "node:test";
import { isFault } from "@cocoon/core";
import { toBlobContent } from "../registry/blob-content.ts";
import type { CredentialSource } from "../registry/credentials.ts";
import { openRegistry } from "../registry/registry.ts";
import type { Repository } from "../registry/repository.ts";
import { computeDigest } from "../digest.ts";
import { startCuttingProxy } from "./cutting-proxy.ts";

export interface SuiteRegistry extends AsyncDisposable {
  readonly address: string;
  readonly credentials?: CredentialSource;
  readonly ca?: string;
}

const manifestType = "application/vnd.oci.image.manifest.v1+json";
const absent = `sha256:${"0".repeat(64)}`;

export function registrySuite(name: string, open: () => Promise<SuiteRegistry>): void {
  const withRepositories = async (
    use: (repository: Repository, other: Repository) => Promise<void>,
  ): Promise<void> => {
    await using server = await open();
    await using registry = openRegistry(server);
    const id = randomBytes(6).toString("hex");
    await use(registry.repository(`suite/a-${id}`), registry.repository(`suite/b-${id}`));
  };

  describe(`registry client: ${name}`, () => {
    it("stores a blob once and gives it back, whole and in parts", async ({ signal }) => {
      await withRepositories(async (repository) => {
        const bytes = randomBytes(300_000);
        const content = toBlobContent(bytes);
        assert.equal(await repository.headBlob(content.digest, { signal }), undefined);
        assert.equal(await repository.putBlob(content, { signal }), "sent");
        assert.equal(await repository.putBlob(content, { signal }), "existed");
        assert.deepEqual(await repository.headBlob(content.digest, { signal }), { size: bytes.length });
        assert.ok(bytes.equals(await repository.readBlob(content, { signal })));
        const part = { ...content, offset: 1000, length: 5000 };
        assert.ok(bytes.subarray(1000, 6000).equals(await repository.readBlob(part, { signal })));
      });
    });

    it("streams a large blob into an upload session", async ({ signal }) => {
      await withRepositories(async (repository) => {
        const bytes = randomBytes(20 * 1024 * 1024);
        assert.equal(await repository.putBlob(toBlobContent(bytes), { signal }), "sent");
        assert.ok(bytes.equals(await repository.readBlob(toBlobContent(bytes), { signal })));
      });
    });

    it("goes on with an upload and a download where the line broke", async ({ signal }) => {
      await using server = await open();
      const bytes = randomBytes(24 * 1024 * 1024);
      for (const direction of ["up", "down"]) {
        const line = { afterBytes: 6 * 1024 * 1024, times: 2 };
        await using proxy = await startCuttingProxy(server.address, line);
        const retry = { baseMs: 10, maxMs: 50 };
        await using registry = openRegistry({ ...server, address: proxy.address, retry });
        const repository = registry.repository(`suite/${direction}-${randomBytes(6).toString("hex")}`);
        if (direction === "down") {
          await using direct = openRegistry(server);
          await direct.repository(repository.name).putBlob(toBlobContent(bytes), { signal });
        }
        let sent = 0;
        await repository.putBlob(toBlobContent(bytes), { signal, onSent: (count) => (sent += count) });
        assert.ok(bytes.equals(await repository.readBlob(toBlobContent(bytes), { signal })));
        assert.equal(proxy.cuts, 2);
        assert.ok(sent < bytes.length * 2.5, `${sent} bytes sent`);
      }
    });

    it("keeps manifests byte for byte under tag and digest, and moves tags", async ({ signal }) => {
      await withRepositories(async (repository) => {
        const first = await putManifest(repository, "v", { tag: "latest", signal });
        const got = await repository.getManifest("latest", { signal });
        assert.deepEqual([got.digest, got.mediaType], [first.digest, manifestType]);
        assert.ok(got.bytes.equals(first.bytes));
        const second = await putManifest(repository, "w", { tag: "latest", signal });
        assert.equal((await repository.headManifest("latest", { signal }))?.digest, second.digest);
        assert.ok((await repository.getManifest(first.digest, { signal })).bytes.equals(first.bytes));
      });
    });

    it("says absent, and only absent, for what is not there", async ({ signal }) => {
      await withRepositories(async (repository) => {
        assert.equal(await repository.headManifest("nothing", { signal }), undefined);
        assert.equal(await repository.headManifest(absent, { signal }), undefined);
        await assert.rejects(repository.getManifest("nothing", { signal }), (error) =>
          isFault(error, "notFound"),
        );
        assert.equal(await repository.deleteManifest(absent, { signal }), false);
        assert.deepEqual(await Array.fromAsync(repository.tags({ signal })), []);
      });
    });

    it("deletes by digest with every tag on it, and again without harm", async ({ signal }) => {
      await withRepositories(async (repository) => {
        const { digest } = await putManifest(repository, "x", { tag: "one", signal });
        await putManifest(repository, "x", { tag: "two", signal });
        assert.equal(await repository.deleteManifest(digest, { signal }), true);
        assert.equal(await repository.headManifest("one", { signal }), undefined);
        assert.equal(await repository.headManifest("two", { signal }), undefined);
        assert.equal(await repository.deleteManifest(digest, { signal }), false);
      });
    });

    it("lists tags in pages", async ({ signal }) => {
      await withRepositories(async (repository) => {
        const tags = Array.from({ length: 7 }, (_, index) => `t${index}`);
        for (const tag of tags) await putManifest(repository, "y", { tag, signal });
        assert.deepEqual((await Array.fromAsync(repository.tags({ signal }))).sort(), tags);
      });
    });

    it("mounts a blob from another repository without sending it", async ({ signal }) => {
      await withRepositories(async (repository, other) => {
        const content = toBlobContent(randomBytes(50_000));
        await repository.putBlob(content, { signal });
        assert.equal(
          await other.mountBlob({ digest: content.digest, from: repository.name }, { signal }),
          true,
        );
        assert.deepEqual(await other.headBlob(content.digest, { signal }), { size: content.size });
      });
    });
  });
}

async function putManifest(
  repository: Repository,
  salt: string,
  { tag, signal }: { tag: string; signal: AbortSignal },
): Promise<{ digest: string; bytes: Buffer }> {
  const config = toBlobContent(Buffer.from(JSON.stringify({ salt })));
  await repository.putBlob(config, { signal });
  const descriptor = {
    mediaType: "application/vnd.oci.empty.v1+json",
    digest: config.digest,
    size: config.size,
  };
  const manifest = { schemaVersion: 2, mediaType: manifestType, config: descriptor, layers: [descriptor] };
  const bytes = Buffer.from(JSON.stringify(manifest, null, 2));
  assert.equal(
    await repository.putManifest(tag, { bytes, mediaType: manifestType }, { signal }),
    computeDigest(bytes),
  );
  return { digest: computeDigest(bytes), bytes };
}
