/** Cloud images by URL, file and import: downloads that break and go on, checksums, disks that are not what they say. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { createReadStream } from "node:fs";
import { open, readdir, readFile, truncate, writeFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { Readable } from "node:stream";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { Fault, type FaultCode } from "@cocoon/core";
import { eventually, runCommand, temporaryDirectory } from "@cocoon/testkit";
import { openImageLibrary, type SourceImage } from "@cocoon/images";
import type { ImageStore } from "@cocoon/vm";
import { readBlob, TestRegistry } from "./oci-layout.ts";

const signal = AbortSignal.timeout(300_000);

/** A bootable-looking raw disk with random content, and the same as qcow2. */
async function makeDisks(directory: string): Promise<{ raw: string; qcow2: string }> {
  const raw = join(directory, "disk.raw");
  const qcow2 = join(directory, "disk.qcow2");
  const content = Buffer.alloc(4 * 2 ** 20);
  for (let at = 0; at < content.length; at += 997) content.writeUInt8((at * 31) % 251, at);
  content.set([0xeb, 0x63], 0);
  content.set([0x55, 0xaa], 510);
  await writeFile(raw, content);
  await truncate(raw, 64 * 2 ** 20);
  const made = await runCommand("qemu-img", ["convert", "-f", "raw", "-O", "qcow2", raw, qcow2]);
  assert.equal(made.code, 0, made.stderr);
  return { raw, qcow2 };
}

interface TestServer extends AsyncDisposable {
  readonly url: string;
  readonly requests: { method: string; range: string | undefined; status: number }[];
  content: Buffer;
  etag: string | undefined;
  /** Breaks the connection after so many bytes, once for each number. */
  readonly breaks: number[];
  ignoresRanges: boolean;
}

async function startServer(content: Buffer): Promise<TestServer> {
  const server = createServer();
  const state = { requests: [], content, etag: '"v1"', breaks: [], ignoresRanges: false } as Omit<
    TestServer,
    "url" | keyof AsyncDisposable
  >;
  server.on("request", (request, response) => answer(state, request, response));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return Object.assign(state, {
    url: `http://127.0.0.1:${port}/disk.qcow2`,
    [Symbol.asyncDispose]: async () => {
      server.close();
      server.closeAllConnections();
      await once(server, "close");
    },
  });
}

// oxlint-disable-next-line max-params -- the server's state and the two sides of a request
function answer(
  state: Omit<TestServer, "url" | keyof AsyncDisposable>,
  request: IncomingMessage,
  response: ServerResponse,
): void {
  const range = /^bytes=(\d+)-$/.exec(request.headers.range ?? "")?.[1];
  const resumes = range !== undefined && !state.ignoresRanges && request.headers["if-range"] === state.etag;
  const start = resumes ? Number(range) : 0;
  const unchanged = state.etag !== undefined && request.headers["if-none-match"] === state.etag;
  const status = unchanged ? 304 : resumes ? 206 : 200;
  state.requests.push({ method: request.method ?? "", range: request.headers.range, status });
  const body = unchanged || request.method === "HEAD" ? Buffer.alloc(0) : state.content.subarray(start);
  response.writeHead(status, {
    ...(state.etag === undefined ? {} : { etag: state.etag }),
    ...(status === 206
      ? { "content-range": `bytes ${start}-${state.content.length - 1}/${state.content.length}` }
      : {}),
    ...(unchanged ? {} : { "content-length": body.length }),
  });
  const stop = body.length > 0 ? state.breaks.shift() : undefined;
  if (stop === undefined) response.end(body);
  else response.write(body.subarray(0, stop), () => setTimeout(() => response.destroy(), 20));
}

async function openLibrary(directory: string, source = new TestRegistry()): Promise<ImageStore> {
  return openImageLibrary({ directory: join(directory, "library"), source, maxDiskBytes: 2 ** 30 });
}

async function filesLeft(directory: string): Promise<string[]> {
  const entries = await readdir(join(directory, "library"), { recursive: true, withFileTypes: true });
  // Locks stay: removing one could take it from a process that waits for it.
  const files = entries.filter((entry) => entry.isFile() && !entry.name.endsWith(".lock"));
  return files.map((entry) => entry.name);
}

const hash = (algorithm: string, bytes: Buffer) => createHash(algorithm).update(bytes).digest("hex");

test("an image comes by URL, checked, and is its own digest", async () => {
  await using directory = await temporaryDirectory();
  const { qcow2 } = await makeDisks(directory.path);
  const content = await readFile(qcow2);
  await using server = await startServer(content);
  const library = await openLibrary(directory.path);
  const seen: number[] = [];
  const ref = `${server.url}#sha512=${hash("sha512", content)}`;
  const image = await library.pull(ref, { signal, onProgress: ({ doneBytes }) => seen.push(doneBytes) });
  assert.deepEqual(
    [image.id, image.name, image.type],
    [`sha256:${hash("sha256", content)}`, ref, "cloudimg"],
  );
  assert.equal(seen.at(-1), content.length);
  const boot = await library.resolve(ref, { signal });
  assert.equal(boot.disk.virtualBytes, 64 * 2 ** 20);
  assert.equal(boot.firmware, "bios");
  assert.deepEqual(await readFile(boot.disk.path), content);
  assert.equal((await library.inspect(image.id, { signal })).name, ref, "found by digest too");
  await library.pull(ref, { signal });
  assert.equal(server.requests.length, 1, "a checksum that is known needs no question");
});

test("a download that breaks goes on where it stopped", async () => {
  await using directory = await temporaryDirectory();
  const { qcow2 } = await makeDisks(directory.path);
  await using server = await startServer(await readFile(qcow2));
  server.breaks.push(1_000_000, 500_000);
  const library = await openLibrary(directory.path);
  const { id } = await library.pull(server.url, { signal });
  assert.equal(id, `sha256:${hash("sha256", server.content)}`);
  assert.deepEqual(
    server.requests.map(({ status }) => status),
    [200, 206, 206],
  );
  const starts = server.requests.map(({ range }) => Number(range?.match(/\d+/)?.[0] ?? 0));
  assert.ok((starts[1] ?? 0) > 0 && (starts[2] ?? 0) > (starts[1] ?? 0), String(starts));
});

test("a pull that is given up is taken up by the next one", async () => {
  await using directory = await temporaryDirectory();
  const { qcow2 } = await makeDisks(directory.path);
  await using server = await startServer(await readFile(qcow2));
  server.breaks.push(2_000_000);
  const controller = new AbortController();
  const library = await openLibrary(directory.path);
  const onProgress = ({ doneBytes }: { doneBytes: number }) => {
    if (doneBytes > 1_000_000) controller.abort(new Error("enough"));
  };
  await assert.rejects(library.pull(server.url, { signal: controller.signal, onProgress }));
  const { id } = await library.pull(server.url, { signal });
  assert.equal(id, `sha256:${hash("sha256", server.content)}`);
  assert.equal(server.requests.at(-1)?.status, 206);
});

test("a file that changed meanwhile, or a server that cannot resume, is fetched from the start", async () => {
  for (const change of ["etag", "ranges", "validator"] as const) {
    await using directory = await temporaryDirectory();
    const { qcow2, raw } = await makeDisks(directory.path);
    await using server = await startServer(await readFile(raw));
    server.breaks.push(1_000_000);
    const library = await openLibrary(directory.path);
    const changed = await readFile(qcow2);
    const pulled = library.pull(server.url, { signal });
    // The next try comes a third of a second after the break at the earliest.
    await eventually(() => assert.equal(server.breaks.length, 0), { intervalMs: 5 });
    if (change === "etag") Object.assign(server, { etag: '"v2"', content: changed });
    else if (change === "ranges") server.ignoresRanges = true;
    else server.etag = undefined;
    assert.equal((await pulled).id, `sha256:${hash("sha256", server.content)}`, change);
    assert.equal(server.requests.at(-1)?.status, 200);
  }
});

test("without a checksum the server is asked whether it changed, and its absence changes nothing", async () => {
  await using directory = await temporaryDirectory();
  const { qcow2, raw } = await makeDisks(directory.path);
  const library = await openLibrary(directory.path);
  let first;
  let url;
  {
    await using server = await startServer(await readFile(qcow2));
    url = server.url;
    first = await library.pull(url, { signal });
    assert.deepEqual(await library.pull(url, { signal }), first);
    assert.deepEqual(
      server.requests.map(({ method, status }) => [method, status]),
      [
        ["GET", 200],
        ["HEAD", 304],
      ],
    );
    Object.assign(server, { etag: '"v2"', content: await readFile(raw) });
    const second = await library.pull(url, { signal });
    assert.notEqual(second.id, first.id);
    first = second;
  }
  assert.deepEqual(await library.pull(url, { signal }), first, "the server is gone, the image is here");
});

test("files, packed disks and imports in parts are taken", async () => {
  await using directory = await temporaryDirectory();
  const { qcow2, raw } = await makeDisks(directory.path);
  const library = await openLibrary(directory.path);
  const content = await readFile(qcow2);
  const id = `sha256:${hash("sha256", content)}`;
  assert.equal((await library.pull(qcow2, { signal })).id, id);
  assert.equal((await library.resolve(qcow2, { signal })).disk.format, "qcow2");
  assert.deepEqual(await readFile(qcow2), content, "the file itself stays");
  await library.pull(raw, { signal });
  assert.equal((await library.resolve(raw, { signal })).disk.format, "raw");
  const packed = join(directory.path, "packed.gz");
  await writeFile(packed, gzipSync(content));
  assert.equal((await library.pull(packed, { signal })).id, id);
  const half = content.length / 2;
  const parts = [content.subarray(0, half), content.subarray(half)].map((part) => Readable.from([part]));
  assert.equal((await library.import("win", parts, { signal })).id, id);
  assert.equal((await library.import("gz", [createReadStream(packed)], { signal })).type, "cloudimg");
});

test("a cloud-image artifact is put together from its parts in the order of their titles", async () => {
  await using directory = await temporaryDirectory();
  const { qcow2 } = await makeDisks(directory.path);
  const content = await readFile(qcow2);
  const part = "application/vnd.cocoonstack.disk.qcow2.part";
  const cut = 1_000_000;
  const artifact: SourceImage = {
    kind: "cloudImage",
    digest: `sha256:${"a".repeat(64)}`,
    windows: true,
    layers: [
      { ...readBlob(content.subarray(cut), part), title: "win.qcow2.01.qcow2.part" },
      { ...readBlob(Buffer.from("not a disk"), "text/plain"), title: "SHA256SUMS" },
      { ...readBlob(content.subarray(0, cut), part), title: "win.qcow2.00.qcow2.part" },
    ],
  };
  const registry = new TestRegistry();
  registry.images.set("registry.test/win", artifact);
  const library = await openLibrary(directory.path, registry);
  const image = await library.pull("win", { signal });
  assert.deepEqual([image.id, image.type], [artifact.digest, "cloudimg"]);
  const boot = await library.resolve("win", { signal });
  assert.deepEqual([boot.os, boot.seed, boot.agent], ["windows", false, false]);
  assert.deepEqual(await readFile(boot.disk.path), content);
});

/** Makes something wrong of a good qcow2 file. */
async function spoil(kind: string, directory: string): Promise<string> {
  const { qcow2, raw } = await makeDisks(directory);
  const patch = async (offset: number, bytes: Buffer) => {
    const file = await open(qcow2, "r+");
    await file.write(bytes, 0, bytes.length, offset);
    await file.close();
  };
  if (kind === "truncated qcow2") await truncate(qcow2, 1_500_000);
  else if (kind === "qcow2 cut in its tables") await truncate(qcow2, 100_000);
  else if (kind === "qcow2 on another file") {
    await runCommand("qemu-img", ["create", "-f", "qcow2", "-b", "/etc/passwd", "-F", "raw", qcow2, "1M"]);
  } else if (kind === "qcow2 with its data elsewhere") await patch(72 + 7, Buffer.from([4]));
  else if (kind === "encrypted qcow2") await patch(32, Buffer.from([0, 0, 0, 2]));
  else if (kind === "qcow2 of a strange version") await patch(4, Buffer.from([0, 0, 0, 9]));
  else if (kind === "raw disk cut in a sector") {
    await truncate(raw, 3_000_001);
    return raw;
  } else if (kind === "text") {
    const path = join(directory, "text");
    await writeFile(path, "<html>404 not found</html>".repeat(100));
    return path;
  } else if (kind === "damaged gzip") {
    const path = join(directory, "packed.gz");
    await writeFile(path, gzipSync(await readFile(qcow2)).subarray(0, 5000));
    return path;
  }
  return qcow2;
}

const wrong: readonly [kind: string, message: RegExp][] = [
  ["truncated qcow2", /truncated/],
  ["qcow2 cut in its tables", /truncated/],
  ["qcow2 on another file", /needs a backing file/],
  ["qcow2 with its data elsewhere", /data is in another file/],
  ["encrypted qcow2", /encrypted/],
  ["qcow2 of a strange version", /version 9/],
  ["raw disk cut in a sector", /truncated/],
  ["text", /neither a qcow2 image nor/],
  ["damaged gzip", /damaged or cut short/],
];
for (const [kind, message] of wrong) {
  test(`a ${kind} is one clear error, by file and by URL, and nothing is left behind`, async () => {
    await using directory = await temporaryDirectory();
    const path = await spoil(kind, directory.path);
    const library = await openLibrary(directory.path);
    await using server = await startServer(await readFile(path));
    for (const ref of [path, server.url]) {
      await assert.rejects(library.pull(ref, { signal }), (error) => {
        assert.ok(error instanceof Fault, String(error));
        assert.equal(error.code, "invalid", error.message);
        assert.match(error.message, message);
        return true;
      });
    }
    assert.deepEqual(await filesLeft(directory.path), []);
  });
}

test("a wrong checksum, an unknown address and a file that is too large are errors that leave nothing", async () => {
  await using directory = await temporaryDirectory();
  const { qcow2 } = await makeDisks(directory.path);
  await using server = await startServer(await readFile(qcow2));
  const library = openImageLibrary({ directory: join(directory.path, "library"), maxDiskBytes: 1_000_000 });
  const roomy = await openLibrary(directory.path);
  const cases: readonly [ImageStore, string, FaultCode, RegExp][] = [
    [roomy, `${server.url}#sha256=${"0".repeat(64)}`, "invalid", /has sha256 [0-9a-f]{64}, not 0000/],
    [roomy, join(directory.path, "absent.img"), "notFound", /does not exist/],
    [library, server.url, "tooLarge", /more than the 1000000 allowed/],
    [library, "some/reference", "notSupported", /no registry is configured/],
  ];
  for (const [store, ref, code, message] of cases) {
    await assert.rejects(store.pull(ref, { signal }), (error) => {
      assert.ok(error instanceof Fault, String(error));
      assert.equal(error.code, code, error.message);
      assert.match(error.message, message);
      return true;
    });
  }
  assert.deepEqual(await filesLeft(directory.path), []);
});

test("gc removes what no image names, and leaves what one does", async () => {
  await using directory = await temporaryDirectory();
  const { qcow2, raw } = await makeDisks(directory.path);
  const library = await openLibrary(directory.path);
  await library.pull(qcow2, { signal });
  await library.pull(raw, { signal });
  assert.deepEqual((await library.gc({ signal })).removed, []);
  const kept = await library.resolve(raw, { signal });
  const gone = await library.resolve(qcow2, { signal });
  await library.remove(qcow2, { signal });
  await assert.rejects(
    library.inspect(qcow2, { signal }),
    (error) => error instanceof Fault && error.code === "notFound",
  );
  const report = await library.gc({ signal });
  assert.deepEqual(report.removed, [gone.disk.path]);
  assert.ok(report.freedBytes > 0);
  assert.ok((await readFile(kept.disk.path)).length > 0);
});

test("gc beside pulls never takes what is being made", async () => {
  await using directory = await temporaryDirectory();
  const { qcow2, raw } = await makeDisks(directory.path);
  const libraries = await Promise.all([openLibrary(directory.path), openLibrary(directory.path)]);
  const [one, two] = libraries;
  assert.ok(one && two);
  for (let round = 0; round < 8; round += 1) {
    const [image] = await Promise.all([
      one.pull(round % 2 ? raw : qcow2, { signal, force: true }),
      two.gc({ signal }),
      two.gc({ signal }),
    ]);
    assert.ok((await readFile((await one.resolve(image.name, { signal })).disk.path)).length > 0);
  }
});
