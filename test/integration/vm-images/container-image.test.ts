/** Container images as machines: from layers to a disk, and from a disk to a program that runs as its image says. */
import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { Fault, type FaultCode } from "@cocoon/core";
import { eventually, runCommand, temporaryDirectory } from "@cocoon/testkit";
import { openImageLibrary, type SourceImage } from "@cocoon/images";
import type { ImageStore } from "@cocoon/vm";
import { ensureBootBundle } from "../../../packages/images/src/boot-bundle.ts";
import { BlobStore } from "../../../packages/images/src/blob-store.ts";
import type { TestEntry } from "@cocoon/oci/testing";
import { bootGuest, cacheDirectory } from "./boot-guest.ts";
import { readBlob, containerImage, TestRegistry } from "./oci-layout.ts";

const signal = AbortSignal.timeout(900_000);

interface Pulled extends AsyncDisposable {
  readonly library: ImageStore;
  readonly registry: TestRegistry;
  readonly directory: string;
}

async function openLibrary(images: Readonly<Record<string, SourceImage>>): Promise<Pulled> {
  const directory = await temporaryDirectory();
  const registry = new TestRegistry();
  for (const [name, image] of Object.entries(images)) registry.images.set(registry.normalise(name), image);
  const library = openImageLibrary({ directory: directory.path, source: registry, maxDiskBytes: 2 ** 30 });
  return {
    library,
    registry,
    directory: directory.path,
    [Symbol.asyncDispose]: () => directory[Symbol.asyncDispose](),
  };
}

/** A library of its own whose kernel need not be fetched again. */
async function withBundle(pulled: Pulled): Promise<void> {
  const shared = new BlobStore(cacheDirectory());
  await ensureBootBundle({ store: shared, signal });
  for (const part of ["blobs", "builds", "current"]) {
    const copied = await runCommand("cp", [
      "-a",
      "--reflink=auto",
      join(shared.directory, part),
      pulled.directory,
    ]);
    assert.equal(copied.code, 0, copied.stderr);
  }
}

/** Busybox as an image would have it, found in the kernel bundle. */
async function busyboxLayer(): Promise<TestEntry[]> {
  const bundle = await ensureBootBundle({ store: new BlobStore(cacheDirectory()), signal });
  const busybox = await readFile(bundle.busyboxPath);
  const names = ["sh", "id", "cat", "sleep", "echo", "hostname", "env", "pwd", "ls", "stat"];
  return [
    { path: "bin/", flag: "5", mode: 0o755 },
    { path: "bin/busybox", content: busybox, mode: 0o755 },
    ...names.map((name) => ({ path: `bin/${name}`, flag: "2", link: "busybox" })),
  ];
}

test("layers become one disk: whiteouts, links, owners", async () => {
  const image = containerImage({
    layers: [
      [
        { path: "etc/", flag: "5", mode: 0o755 },
        { path: "etc/old", content: "old" },
        { path: "data/", flag: "5" },
        { path: "data/hidden", content: "x" },
      ],
      [
        { path: "etc/.wh.old" },
        { path: "data/.wh..wh..opq" },
        { path: "data/shown", content: "y", uid: 33, gid: 33, mode: 0o640 },
        { path: "data/same", flag: "1", link: "data/shown" },
      ],
      [{ path: "etc/new", content: "new" }],
    ],
  });
  await using pulled = await openLibrary({ app: image });
  const { library } = pulled;
  const progress: number[] = [];
  const made = await library.pull("app", { signal, onProgress: ({ doneBytes }) => progress.push(doneBytes) });
  assert.deepEqual([made.id, made.name, made.type], [image.digest, "registry.test/app", "oci"]);
  assert.ok((progress.at(-1) ?? 0) > 0);
  const [blob = ""] = await readdir(join(pulled.directory, "blobs"));
  const debugfs = async (command: string) =>
    (await runCommand("/usr/sbin/debugfs", ["-R", command, join(pulled.directory, "blobs", blob)])).stdout;
  const names = async (path: string) =>
    (await debugfs(`ls -p ${path}`))
      .split("\n")
      .flatMap((line) => line.split("/")[5] ?? [])
      .filter((name) => !/^\.*$/.test(name))
      .sort();
  assert.deepEqual(await names("/etc"), ["new"]);
  assert.deepEqual(await names("/data"), ["same", "shown"]);
  assert.match(await debugfs("stat /data/same"), /User:\s+33\s+Group:\s+33[^]*Links: 2/);
  assert.deepEqual(await readdir(join(pulled.directory, "work")), [], "nothing is left of the work");
});

test("an image runs its entrypoint as its config says, and is reached by the agent", async () => {
  const passwd = "root:x:0:0:root:/root:/bin/sh\napp:x:1234:1234::/srv/home:/bin/sh\n";
  const group = "root:x:0:\napp:x:1234:\nextra:x:4321:app\n";
  const image = containerImage({
    layers: [
      await busyboxLayer(),
      [
        { path: "etc/passwd", content: passwd },
        { path: "etc/group", content: group },
        { path: "srv/app/", flag: "5", mode: 0o755, uid: 1234 },
      ],
    ],
    config: {
      Entrypoint: ["/bin/sh", "-c"],
      Cmd: ['echo "RUNS as $(id) in $(pwd) with $COLOUR and $EXTRA on $(hostname)"; exec sleep 1000'],
      Env: ["PATH=/bin", "COLOUR=deep blue"],
      User: "app",
      WorkingDir: "/srv/app",
    },
  });
  await using pulled = await openLibrary({ app: image });
  await withBundle(pulled);
  const { library } = pulled;
  await library.pull("app", { signal });
  const boot = await library.resolve("app", { signal });
  await using guest = await bootGuest({
    library,
    image: boot,
    signal,
    facts: { login: { env: { EXTRA: "more" } } },
  });
  await eventually(
    async () =>
      assert.match(
        await guest.console(),
        /RUNS as uid=1234\(app\) gid=1234\(app\) groups=1234\(app\),4321\(extra\) in \/srv\/app with deep blue and more on guest-one/,
      ),
    { timeoutMs: 120_000 },
  );
  const asRoot = await guest.run(["/bin/sh", "-c", "id; echo $COLOUR"]);
  assert.match(asRoot.stdout, /uid=0\(root\)[^]*deep blue/);
  const asApp = await guest.run(["/bin/id"], { user: "app" });
  assert.match(asApp.stdout, /uid=1234\(app\)/);
  const unknown = await guest.run(["/bin/id"], { user: "nobody-here" }).catch((error: unknown) => error);
  assert.ok(unknown instanceof Fault && unknown.code === "notFound", String(unknown));
});

test("an image with nothing but one static program still has a shell and SSH by ours", async () => {
  const [, busybox] = await busyboxLayer();
  assert.ok(busybox);
  const image = containerImage({
    layers: [[{ ...busybox, path: "sleep" }]],
    config: { Entrypoint: ["/sleep", "1000"] },
  });
  await using pulled = await openLibrary({ tiny: image });
  await withBundle(pulled);
  const { library } = pulled;
  await library.pull("tiny", { signal });
  await using guest = await bootGuest({ library, image: await library.resolve("tiny", { signal }), signal });
  await eventually(
    async () =>
      assert.match((await guest.run(["/run/cocoon/bin/busybox", "netstat", "-ltn"])).stdout, /:22 .*LISTEN/),
    { timeoutMs: 180_000 },
  );
  assert.equal(
    (await guest.run(["sh", "-c", "read name < /proc/1/comm; echo $name"])).stdout,
    "cocoon-guest\n",
  );
});

test("an entrypoint that fails is started again, with a growing delay", async () => {
  const image = containerImage({
    layers: [await busyboxLayer()],
    config: { Entrypoint: ["/bin/sh", "-c", "echo ATTEMPT; exit 3"] },
  });
  await using pulled = await openLibrary({ failing: image });
  await withBundle(pulled);
  const { library } = pulled;
  await library.pull("failing", { signal });
  await using guest = await bootGuest({
    library,
    image: await library.resolve("failing", { signal }),
    signal,
  });
  await eventually(
    async () => {
      const text = await guest.console();
      assert.ok(text.split("ATTEMPT").length > 3, text);
      assert.match(text, /entrypoint ended with code 3/);
    },
    { timeoutMs: 120_000 },
  );
});

test("an unchanged image is not fetched again, a changed one is, and a dead registry does not take away what is here", async () => {
  const first = containerImage({ layers: [[{ path: "v", content: "1" }]] });
  const second = containerImage({ layers: [[{ path: "v", content: "2" }]] });
  await using pulled = await openLibrary({ app: first });
  const { library, registry } = pulled;
  const before = await library.pull("app", { signal });
  assert.deepEqual(await library.pull("app", { signal }), before);
  registry.isDown = true;
  assert.deepEqual(await library.pull("app", { signal }), before);
  await assert.rejects(library.pull("app", { signal, force: true }), /does not answer/);
  await assert.rejects(
    library.pull("other", { signal }),
    (error) => error instanceof Fault && error.code === "unavailable",
  );
  registry.isDown = false;
  registry.images.set("registry.test/app", second);
  assert.equal((await library.pull("app", { signal })).id, second.digest);
  const report = await library.gc({ signal });
  assert.equal(report.removed.filter((path) => path.includes("/blobs/")).length, 1, "the first disk");
});

const lying = readBlob(Buffer.from("x".repeat(3000)));
const failures: readonly [name: string, image: SourceImage, code: FaultCode, message: RegExp][] = [
  [
    "another platform",
    containerImage({ layers: [[]], architecture: "arm64" }),
    "preconditionFailed",
    /linux\/arm64/,
  ],
  [
    "a snapshot",
    { kind: "other", digest: lying.digest, what: "a snapshot: clone it" },
    "invalid",
    /a snapshot: clone it/,
  ],
  [
    "a blob with other content",
    {
      kind: "container",
      digest: lying.digest,
      config: {},
      layers: [{ ...lying, digest: `sha256:${"0".repeat(64)}` }],
    },
    "invalid",
    /content with sha256|not a tar/,
  ],
  [
    "a blob that is too short",
    {
      kind: "container",
      digest: lying.digest,
      config: {},
      layers: [{ ...readBlob(Buffer.alloc(1024)), sizeBytes: 2048 }],
    },
    "invalid",
    /1024 of 2048 bytes/,
  ],
  [
    "an archive that leaves its root",
    containerImage({ layers: [[{ path: "../../outside", content: "x" }]] }),
    "invalid",
    /leaves its root/,
  ],
  [
    "an image that is too large",
    containerImage({ layers: [[{ path: "a", claimedSize: 7e9 }]] }),
    "tooLarge",
    /larger than/,
  ],
  [
    "a cloud image without a disk",
    { kind: "cloudImage", digest: lying.digest, windows: false, layers: [lying] },
    "invalid",
    /without a disk/,
  ],
];
for (const [name, image, code, message] of failures) {
  test(`${name} is one clear error, and nothing is left behind`, async () => {
    await using pulled = await openLibrary({ bad: image });
    await assert.rejects(pulled.library.pull("bad", { signal }), (error) => {
      assert.ok(error instanceof Fault, String(error));
      assert.equal(error.code, code, error.message);
      assert.match(error.message, message);
      return true;
    });
    assert.deepEqual(await pulled.library.list({ signal }), []);
    const left = await readdir(pulled.directory, { recursive: true, withFileTypes: true });
    assert.deepEqual(
      // Locks stay: removing one could take it from a process that waits for it.
      left.filter((entry) => entry.isFile() && !entry.name.endsWith(".lock")).map((entry) => entry.name),
      [],
    );
  });
}

test("an unknown image is not found, by pull and by resolve", async () => {
  await using pulled = await openLibrary({});
  const isNotFound = (error: unknown) => error instanceof Fault && error.code === "notFound";
  await assert.rejects(pulled.library.pull("nothing", { signal }), isNotFound);
  await assert.rejects(pulled.library.resolve("nothing", { signal }), isNotFound);
});
