/** A machine asleep in a registry, and nodes that have nothing of it: the registry is reached through a link that can be cut. */
import assert from "node:assert/strict";
import { chmod, readFile } from "node:fs/promises";
import { join } from "node:path";
import { demoImageName, openImageLibrary } from "@cocoon/images";
import { fixedCredential, openRegistry, openSnapshotClient } from "@cocoon/oci";
import { startSlowLink, type LinkOptions, type SlowLink } from "@cocoon/oci/testing";
import { startRegistry } from "@cocoon/registry";
import { openFakeStorage } from "@cocoon/registry/testing";
import { temporaryDirectory } from "@cocoon/testkit";
import type { CloneOptions, VmRuntime } from "@cocoon/vm";
import { imageDirectory, openQemuRuntimeIn } from "./qemu-harness.ts";

const mebibyte = 1024 * 1024;
const { signal } = new AbortController();
const repository = "vk-lab-lazy";
const readyMs = 600_000;
/** On a busy host a guest may say nothing for long; a reset would only begin anew. */
const bootSilenceMs = readyMs;
/** As the product does it as root: QEMU has a user and namespaces of its own. */
const runAs = { uid: 2_000_300_000, gid: 2_000_300_000, count: 100 };

/** A command of the guest; its output. */
export async function run(runtime: VmRuntime, id: string, script: string): Promise<string> {
  await using program = await runtime.exec(id, { argv: ["sh", "-c", script] }, { signal });
  const text = (await program.stdout.toArray()).join("").trim();
  const { code } = await program.exited;
  assert.equal(code, 0, text);
  return text;
}

export interface SleepingMachine extends AsyncDisposable {
  readonly digest: string;
  /** What a full copy weighs in the registry. */
  readonly packedBytes: number;
  /** Checksums that the guest computes of its memory and of its disk. */
  readonly sums: string;
  readonly url: string;
  readonly token: string;
  /** Whether the snapshot is in the registry, whole. */
  isThere(): Promise<boolean>;
}

/** Sectors of a disk without a file system. */
const rawSectors = 16 * 2048;
const findRaw = `raw=/dev/$(basename $(dirname $(grep -lx ${rawSectors} /sys/block/vd*/size)))`;

/**
 * Content in memory (tmpfs), in a file, and on a disk that is read past the guest's page cache. That one has no file system:
 * the guest's kernel (6.1.192) does not survive that the caches of ext4 are dropped.
 */
export const sumScript = [
  findRaw,
  "blockdev --flushbufs $raw",
  "sha256sum /dev/shm/content /root/content $raw",
].join(" && ");

export async function putMachineToSleep(sizes: {
  readonly memoryMib: number;
  readonly contentMib: number;
}): Promise<SleepingMachine> {
  const stack = new AsyncDisposableStack();
  const server = stack.use(await startRegistry({ storage: { kind: "given", storage: openFakeStorage() } }));
  const token = await server.createToken({ name: "test", scopes: ["repository:**:pull,push,delete"] });
  const registry = stack.use(
    openRegistry({ address: server.url, credentials: fixedCredential({ kind: "bearer", token }) }),
  );
  const directory = stack.use(await temporaryDirectory());
  await openImageLibrary({ directory: imageDirectory() }).pull(demoImageName, { signal });
  await using runtime = await openQemuRuntimeIn(directory.path, { signal, bootSilenceMs });
  const { id } = await runtime.run(
    {
      name: "sleeper",
      image: demoImageName,
      cpus: 1,
      memoryBytes: sizes.memoryMib * mebibyte,
      storageBytes: 512 * mebibyte,
      dataDisks: [{ name: "raw", sizeBytes: rawSectors * 512, fsType: "none" }],
    },
    { signal },
  );
  await runtime.waitReady(id, { signal: AbortSignal.timeout(readyMs) });
  const random = (target: string, mib: number) =>
    `dd if=/dev/urandom of=${target} bs=1M count=${mib} 2>/dev/null`;
  const fill = [
    "mkdir -p /dev/shm",
    "{ mountpoint -q /dev/shm || mount -t tmpfs -o size=90% none /dev/shm; }",
    random("/dev/shm/content", sizes.contentMib),
    random("/root/content", 4),
    findRaw,
    random("$raw", 16),
    "sync",
  ];
  await run(runtime, id, fill.join(" && "));
  await sendAhead(runtime, id);
  await run(
    runtime,
    id,
    `dd if=/dev/urandom of=/dev/shm/content bs=64K count=20 seek=7 conv=notrunc 2>/dev/null`,
  );
  const sums = await run(runtime, id, sumScript);
  const saved = await runtime.snapshots.save(id, { name: repository, resume: false, signal });
  const client = stack.use(await openSnapshotClient());
  const pushed = await runtime.snapshots.withFiles(
    saved.snapshot.id,
    ({ envelope, files }) =>
      client.push({
        source: { envelope, files },
        repository: registry.repository(repository),
        tag: "hibernate",
        format: "packed",
        signal,
      }),
    { signal },
  );
  await runtime.remove(id, { force: true, signal });
  return {
    digest: pushed.digest,
    packedBytes: pushed.bytesSent,
    sums,
    url: server.url,
    token,
    isThere: async () => {
      const work = await temporaryDirectory();
      await using _work = work;
      const source = { repository: registry.repository(repository), reference: pushed.digest, signal };
      return (await client.verify({ ...source, workDirectory: work.path })).digest === pushed.digest;
    },
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

/** As a hibernation does it: what is saved then starts from a copy of the memory as it was. */
async function sendAhead(runtime: VmRuntime, id: string): Promise<void> {
  const names = await runtime.snapshots.withLiveFiles?.(
    id,
    ({ files }) => Promise.resolve(files.map(({ name }) => name)),
    { leastBytes: 1, signal },
  );
  assert.ok(names);
  assert.ok(names.includes("memory-ranges"));
  assert.ok(!names.includes("device-state"), "nothing can be restored from it");
}

/** Of what outlives a boot. */
export const diskSumScript = `${findRaw} && sha256sum /root/content $raw`;

export interface LazyNode extends AsyncDisposable {
  readonly root: string;
  readonly link: SlowLink;
  open(): Promise<VmRuntime>;
}

export function openLazyRuntime(
  root: string,
  { address, token }: { readonly address: string; readonly token: string },
): Promise<VmRuntime> {
  const registry = { address, token, dockerConfig: "/nonexistent" };
  const store = { directory: join(root, "chunks"), limitBytes: 1024 * mebibyte };
  return openQemuRuntimeIn(root, { signal, runAs, lazy: { registry, store } });
}

/** Process that serves the files of a VM. */
export async function findPageServer(root: string, id: string): Promise<number> {
  const text = await readFile(join(root, "qemu", "vms", id, "loading.json"), "utf8");
  return (JSON.parse(text) as { readonly server: { readonly pid: number } }).server.pid;
}

export async function wake(
  runtime: VmRuntime,
  {
    name,
    digest,
    ...check
  }: { readonly name: string; readonly digest: string } & Pick<CloneOptions, "beforeRun">,
): Promise<string> {
  const remote = { repository, digest, snapshotId: "" };
  const vm = await runtime.cloneRemote?.({ name, remote }, { signal, ...check });
  assert.ok(vm);
  return vm.id;
}

/** A node with an empty store. */
export async function openLazyNode(machine: SleepingMachine, options: LinkOptions = {}): Promise<LazyNode> {
  const stack = new AsyncDisposableStack();
  const directory = stack.use(await temporaryDirectory());
  await chmod(directory.path, 0o711);
  const link = stack.use(await startSlowLink(machine.url, options));
  const open = () => openLazyRuntime(directory.path, { address: link.address, token: machine.token });
  stack.defer(async () => {
    link.repair();
    await using runtime = await open();
    for (const vm of await runtime.list({ signal })) await runtime.remove(vm.id, { force: true, signal });
  });
  return { root: directory.path, link, open, [Symbol.asyncDispose]: () => stack.disposeAsync() };
}
