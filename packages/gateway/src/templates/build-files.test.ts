import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { createServer, request } from "node:http";
import { buffer } from "node:stream/consumers";
import { test, type TestContext } from "node:test";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { silentLogger } from "@cocoon/core";
import { openRegistry } from "@cocoon/oci";
import { startFakeRegistry, type FakeRegistry } from "@cocoon/oci/testing";
import { eventually } from "@cocoon/testkit";
import { ApiError } from "../http/answer.ts";
import { BuildFiles } from "./build-files.ts";
import { archiveRepository } from "./file-archives.ts";

const name = { namespace: "team-a", hash: "a".repeat(64) };
const options = { signal: new AbortController().signal };
const hourMs = 3_600_000;
const maxBytes = 20_000_000;

interface Replica {
  readonly files: BuildFiles;
  readonly put: (path: string, body: Uint8Array) => Promise<number>;
  readonly port: number;
  /** Uploads that were refused or cut. */
  readonly failures: readonly unknown[];
}

/** A replica with a listener that takes uploads only. */
async function openReplica(
  t: TestContext,
  server: FakeRegistry,
  now: () => number = Date.now,
): Promise<Replica> {
  const registry = openRegistry({ address: server.url });
  const repository = registry.repository(archiveRepository);
  const files = new BuildFiles({ seed: "seed", maxBytes, repository, log: silentLogger, now });
  const failures: unknown[] = [];
  const listener = createServer((incoming, response) => {
    files.take(incoming).then(
      () => response.end(),
      (error: unknown) => {
        failures.push(error);
        response.writeHead(error instanceof ApiError ? error.status : 500).end();
      },
    );
  });
  listener.listen(0, "127.0.0.1");
  await once(listener, "listening");
  t.after(async () => {
    files[Symbol.dispose]();
    listener.closeAllConnections();
    listener.close();
    await registry[Symbol.asyncDispose]();
  });
  const { port } = listener.address() as AddressInfo;
  const put = async (path: string, body: Uint8Array) =>
    (await fetch(`http://127.0.0.1:${port}${path}`, { method: "PUT", body })).status;
  return { files, put, port, failures };
}

function countTags(server: FakeRegistry): number {
  return server.repos.get(archiveRepository)?.tags.size ?? 0;
}

test("what one replica took is there for another, whole and in order, also after a restart", async (t) => {
  await using server = await startFakeRegistry();
  const [first, second] = [await openReplica(t, server), await openReplica(t, server)];
  const body = randomBytes(9_000_000);
  assert.equal(await second.files.has(name, options), false);
  assert.equal(await second.files.tryOpen(name, options), undefined);
  assert.equal(await first.put(second.files.sign(name), body), 200);
  first.files[Symbol.dispose]();
  assert.equal(await second.files.has(name, options), true);
  const content = await second.files.tryOpen(name, options);
  assert.ok(content && (await buffer(content)).equals(body));
  assert.equal(await second.files.has({ ...name, namespace: "team-b" }, options), false);
});

test("a URL that was not signed, and one for another file, takes nothing", async (t) => {
  await using server = await startFakeRegistry();
  const { files, put } = await openReplica(t, server);
  const signed = files.sign(name);
  assert.equal(await put(signed.replace("team-a", "team-b"), Buffer.from("x")), 403);
  assert.equal(await put(signed.replace(/signature=.*/, "signature="), Buffer.from("x")), 403);
  assert.equal(countTags(server), 0);
});

test("all that waits in a namespace is limited, and another namespace is not concerned", async (t) => {
  await using server = await startFakeRegistry();
  const { files, put } = await openReplica(t, server);
  const other = { ...name, hash: "b".repeat(64) };
  assert.equal(await put(files.sign(name), Buffer.alloc(15_000_000)), 200);
  assert.equal(await put(files.sign(other), Buffer.alloc(6_000_000)), 413);
  assert.equal(await files.has(other, options), false);
  assert.equal(await put(files.sign({ ...other, namespace: "team-b" }), Buffer.alloc(6_000_000)), 200);
});

test("after an hour a client uploads again, after two the older one is removed; the newer one stays", async (t) => {
  await using server = await startFakeRegistry();
  let nowMs = Date.now();
  const { files, put } = await openReplica(t, server, () => nowMs);
  const stale = { ...name, hash: "c".repeat(64) };
  assert.equal(await put(files.sign(stale), Buffer.from("stale")), 200);
  assert.equal(await put(files.sign(name), Buffer.from("same")), 200);
  nowMs += 1.5 * hourMs;
  assert.equal(await files.has(name, options), false);
  const older = await files.tryOpen(name, options);
  assert.equal(older && (await buffer(older)).toString(), "same", "a build that began before goes on");
  assert.equal(await put(files.sign(name), Buffer.from("same")), 200);
  nowMs += hourMs;
  assert.equal(await put(files.sign({ ...name, hash: "d".repeat(64) }), Buffer.from("next")), 200);
  assert.equal(await files.tryOpen(stale, options), undefined);
  const newer = await files.tryOpen(name, options);
  assert.equal(newer && (await buffer(newer)).toString(), "same");
  assert.equal(countTags(server), 2);
});

test("an upload that is cut leaves no archive", async (t) => {
  await using server = await startFakeRegistry();
  const { files, port, failures } = await openReplica(t, server);
  const headers = { "content-length": "9000000" };
  const sent = request({ host: "127.0.0.1", port, method: "PUT", path: files.sign(name), headers });
  sent.on("error", () => undefined);
  sent.write(Buffer.alloc(5_000_000));
  await eventually(() => assert.ok(server.repos.get(archiveRepository)?.blobs.size === 1));
  sent.destroy();
  await eventually(() => assert.equal(failures.length, 1));
  assert.equal(countTags(server), 0);
  assert.equal(await files.has(name, options), false);
});

test("without a registry COPY is refused by name", async () => {
  using files = new BuildFiles({ seed: "seed", maxBytes, repository: undefined, log: silentLogger });
  await assert.rejects(
    files.has(name, options),
    (error) => error instanceof ApiError && error.status === 501,
  );
});
