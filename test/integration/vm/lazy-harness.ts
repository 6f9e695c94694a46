/** A machine asleep in a registry, and nodes that have nothing of it: the registry is reached through a link that can be cut. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { demoImageName, openImageLibrary } from "@cocoon/images";
import { fixedCredential, openRegistry, openSnapshotClient } from "@cocoon/oci";
import { startSlowLink, type LinkOptions, type SlowLink } from "@cocoon/oci/testing";
import { startRegistry } from "@cocoon/registry";
import { openFakeStorage } from "@cocoon/registry/testing";
import { temporaryDirectory } from "@cocoon/testkit";
import type { VmRuntime } from "@cocoon/vm";
import { imageDirectory, openQemuRuntimeIn } from "./qemu-harness.ts";

const mebibyte = 1024 * 1024;
const { signal } = new AbortController();
const repository = "vk-lab-lazy";
const readyMs = 240_000;

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

/** Content in memory (tmpfs) and on disk, without which nothing would be proven. */
export const sumScript =
  "cat /dev/shm/content /root/content /root/later 2>/dev/null | sha256sum; sha256sum /dev/shm/content /root/content";

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
  await using runtime = await openQemuRuntimeIn(directory.path, { signal });
  const { id } = await runtime.run(
    {
      name: "sleeper",
      image: demoImageName,
      cpus: 1,
      memoryBytes: sizes.memoryMib * mebibyte,
      storageBytes: 512 * mebibyte,
    },
    { signal },
  );
  await runtime.waitReady(id, { signal: AbortSignal.timeout(readyMs) });
  const fill = `mkdir -p /dev/shm; mountpoint -q /dev/shm || mount -t tmpfs -o size=90% none /dev/shm; dd if=/dev/urandom of=/dev/shm/content bs=1M count=${sizes.contentMib} 2>/dev/null; dd if=/dev/urandom of=/root/content bs=1M count=16 2>/dev/null; sync; echo 3 > /proc/sys/vm/drop_caches`;
  await run(runtime, id, fill);
  const sums = await run(runtime, id, sumScript);
  const saved = await runtime.snapshots.save(id, { name: repository, resume: false, signal });
  await using client = await openSnapshotClient();
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
  return openQemuRuntimeIn(root, { signal, lazy: { registry, store } });
}

export async function wake(
  runtime: VmRuntime,
  { name, digest }: { readonly name: string; readonly digest: string },
): Promise<string> {
  const remote = { repository, digest, snapshotId: "" };
  const vm = await runtime.cloneRemote?.({ name, remote }, { signal });
  assert.ok(vm);
  return vm.id;
}

/** A node with an empty store. */
export async function openLazyNode(machine: SleepingMachine, options: LinkOptions = {}): Promise<LazyNode> {
  const stack = new AsyncDisposableStack();
  const directory = stack.use(await temporaryDirectory());
  const link = stack.use(await startSlowLink(machine.url, options));
  const open = () => openLazyRuntime(directory.path, { address: link.address, token: machine.token });
  stack.defer(async () => {
    link.repair();
    await using runtime = await open();
    for (const vm of await runtime.list({ signal })) await runtime.remove(vm.id, { force: true, signal });
  });
  return { root: directory.path, link, open, [Symbol.asyncDispose]: () => stack.disposeAsync() };
}
