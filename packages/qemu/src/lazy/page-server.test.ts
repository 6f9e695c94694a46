/** A page server as a machine sees it, with a real mount and registry; a sleeping process stands in for QEMU and its descriptor. */
import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { closeSync } from "node:fs";
import { mkdir, open, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { isAlive, silentLogger, tryIdentify, type ProcessIdentity } from "@cocoon/core";
import { listSourceFiles, openRegistry, openSnapshotClient } from "@cocoon/oci";
import { startFakeRegistry, startSlowLink, testEnvelope, type SlowLink } from "@cocoon/oci/testing";
import { eventually, requireRoot, seededRandom, temporaryDirectory, testSeed } from "@cocoon/testkit";
import type { QemuContext } from "../context.ts";
import { machineFile, vmFile } from "../store/layout.ts";
import type { VmRecord } from "../store/vm-record.ts";
import { announceAnswered } from "./finish-loading.ts";
import { tryReadLoading } from "./loading-state.ts";
import { abortMount, findFuseProblem, mountFuse, unmountFuse } from "./mount.ts";
import { awaitServing, pageServerProgram, revivePageServer, startPageServer } from "./page-server-process.ts";

const { signal } = new AbortController();
const patience = { timeoutMs: 60_000, intervalMs: 20 };
// The disk comes before the memory in the snapshot, as the data disk of a machine may.
const names = { memory: machineFile.memory, disk: "data-0.raw" };

interface Served extends AsyncDisposable {
  readonly link: SlowLink;
  readonly directory: string;
  readonly sums: ReadonlyMap<string, string>;
  server(): Promise<ProcessIdentity>;
  /** Starts another server, as the runtime does where one has died. */
  revive(): Promise<void>;
  /** The checksum of a file, read through the mount by a process of its own. */
  read(name: string): Promise<string>;
}

async function writeFiles(directory: string): Promise<Map<string, string>> {
  await mkdir(directory, { recursive: true });
  const random = seededRandom(testSeed());
  const noise = () => Buffer.from(Uint32Array.from({ length: 24_576 }, () => random() * 2 ** 32).buffer);
  await using memory = await open(join(directory, names.memory), "w");
  await memory.truncate(16 << 20);
  for (let at = 0; at < 16; at += 1) if (at % 3 > 0) await memory.write(noise(), 0, 98_304, at << 20);
  await writeFile(join(directory, names.disk), Buffer.concat([noise(), Buffer.alloc(300_000), noise()]));
  await writeFile(join(directory, machineFile.deviceState), "state of the devices");
  const sums = new Map<string, string>();
  for (const name of Object.values(names))
    sums.set(
      name,
      createHash("sha256")
        .update(await readFile(join(directory, name)))
        .digest("hex"),
    );
  return sums;
}

async function serve(): Promise<Served> {
  requireRoot("mount a file system");
  assert.equal(await findFuseProblem({ signal }), "");
  await using stack = new AsyncDisposableStack();
  const { path } = stack.use(await temporaryDirectory());
  const registry = stack.use(await startFakeRegistry());
  const link = stack.use(await startSlowLink(registry.url));
  const source = join(path, "source");
  const sums = await writeFiles(source);
  const client = stack.use(await openSnapshotClient({ threads: 1 }));
  const repository = stack.use(openRegistry({ address: registry.url })).repository("vk-lab-lazy");
  const files = await listSourceFiles(source);
  const pushed = await client.push({
    source: { envelope: testEnvelope, files },
    repository,
    tag: "hibernate",
    format: "packed",
    signal,
  });
  const directory = join(path, "vm");
  const mount = join(directory, vmFile.lazy);
  await mkdir(join(directory, "files-1"), { recursive: true });
  const fd = await mountFuse(mount, { signal });
  // It writes into the directory until it has seen that the mount is gone.
  stack.defer(async () => {
    const last = (await tryReadLoading(directory))?.server;
    await eventually(
      () => assert.ok(!last || !isAlive(last), "the page server ended with its mount"),
      patience,
    );
  });
  stack.defer(() => unmountFuse(mount));
  stack.defer(() => abortMount(mount));
  const holder = spawn("sleep", ["600"], { stdio: ["ignore", "ignore", "ignore", "ignore", fd] });
  stack.defer(() => void holder.kill("SIGKILL"));
  const store = { directory: join(path, "chunks"), limitBytes: 1 << 30 };
  const access = { address: link.address, dockerConfig: "/nonexistent" };
  const context = {
    settings: { lazy: { registry: access, store, program: pageServerProgram, path: "/usr/bin:/bin" } },
    store: { getDirectory: () => directory },
    log: silentLogger,
  } as unknown as QemuContext;
  const lazy = {
    state: "loading",
    repository: "vk-lab-lazy",
    digest: pushed.digest,
    files: Object.values(names),
  };
  const identity = tryIdentify(holder.pid ?? 0);
  const record = { id: "VM", name: "vm", files: "files-1", lazy, process: identity } as unknown as VmRecord;
  const server = await startPageServer(context, record, { fd, resumed: false });
  closeSync(fd);
  await awaitServing(directory, server, { signal });
  const parts = stack.move();
  return {
    link,
    directory,
    sums,
    server: async () => (await tryReadLoading(directory))?.server ?? assert.fail("no server is known"),
    revive: async () => void (await revivePageServer(context, record)),
    read: (name) =>
      readSum(spawn("/usr/bin/sha256sum", [join(mount, name)], { stdio: ["ignore", "pipe", "inherit"] })),
    [Symbol.asyncDispose]: () => parts.disposeAsync(),
  };
}

async function readSum(child: ChildProcess): Promise<string> {
  const [text, [code]] = (await Promise.all([child.stdout?.toArray(), once(child, "close")])) as [
    Buffer[],
    [number],
  ];
  assert.equal(code, 0);
  return Buffer.concat(text).toString("utf8").slice(0, 64);
}

async function kill(server: ProcessIdentity): Promise<void> {
  process.kill(server.pid, "SIGKILL");
  await eventually(() => assert.ok(!isAlive(server)), patience);
}

async function becomesLocal({ directory }: Served): Promise<void> {
  await announceAnswered(directory);
  await eventually(async () => assert.equal((await tryReadLoading(directory))?.state, "local"), patience);
}

test("files are read before they are here, and everything is local in the end", async () => {
  await using served = await serve();
  for (const [name, sum] of served.sums) assert.equal(await served.read(name), sum, name);
  await becomesLocal(served);
  for (const [name, sum] of served.sums) {
    const local = await readFile(join(served.directory, "files-1", name));
    assert.equal(createHash("sha256").update(local).digest("hex"), sum, `${name} on disk`);
  }
});

test("a reader waits while the registry and the page server are gone, and then gets the right content", async () => {
  await using served = await serve();
  served.link.cut();
  const reading = served.read(names.memory);
  let ended = false;
  void reading.finally(() => (ended = true));
  const first = await served.server();
  await eventually(
    async () => assert.notEqual((await tryReadLoading(served.directory))?.problem, ""),
    patience,
  );
  await kill(first);
  assert.equal(ended, false, "it waits without a server");
  served.link.repair();
  await served.revive();
  assert.equal(await reading, served.sums.get(names.memory));
  assert.equal(await served.read(names.disk), served.sums.get(names.disk));
});

test("once everything is local, the page server becomes a smaller program, and readers notice nothing", async () => {
  await using served = await serve();
  const { pid } = await served.server();
  await becomesLocal(served);
  const readings = Array.from({ length: 8 }, () => served.read(names.memory));
  await eventually(async () => {
    const command = await readFile(`/proc/${pid}/cmdline`, "utf8");
    assert.ok(command.includes("\0--local\0"), command);
  }, patience);
  served.link.cut();
  for (const each of readings) assert.equal(await each, served.sums.get(names.memory));
  assert.equal(await served.read(names.disk), served.sums.get(names.disk));
  assert.deepEqual(await served.server(), tryIdentify(pid), "it is still known");
});

test("once everything is local, a new page server needs no registry, and files are what they were", async () => {
  await using served = await serve();
  // From here on the kernel knows the file by its number.
  await stat(join(served.directory, vmFile.lazy, names.memory));
  await becomesLocal(served);
  served.link.cut();
  await kill(await served.server());
  const reading = served.read(names.memory);
  await served.revive();
  assert.equal(await reading, served.sums.get(names.memory));
});

test("a page server ends with its mount", async () => {
  const served = await serve();
  const server = await served.server();
  await served[Symbol.asyncDispose]();
  await eventually(() => assert.ok(!isAlive(server)), patience);
});
