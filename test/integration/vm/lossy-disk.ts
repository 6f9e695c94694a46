/**
 * A mounted ext4 file system on a disk that loses what was not flushed: ext4 → loop device → a file served through FUSE by
 * qemu-storage-daemon → NBD → a process of ours (`lossy-disk-worker.ts`). Needs root, FUSE and loop devices.
 */
import { execFile, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface, type Interface } from "node:readline";
import { promisify } from "node:util";
import { stat } from "node:fs/promises";
import { eventually, temporaryDirectory } from "@cocoon/testkit";

const run = promisify(execFile);

export interface Mounted extends AsyncDisposable {
  readonly path: string;
}

export interface AfterCut {
  /** How many blocks had not been flushed. */
  readonly unflushed: number;
  /** Mounts it; the journal is replayed. */
  mount(): Promise<Mounted>;
}

export interface LossyDisk extends AsyncDisposable {
  /** Where it is mounted. */
  readonly path: string;
  /** Keeps what a power cut right now would leave. */
  cut(options: { readonly keep: number; readonly seed: number }): Promise<AfterCut>;
}

export async function openLossyDisk(sizeBytes: number): Promise<LossyDisk> {
  await using stack = new AsyncDisposableStack();
  const work = stack.use(await temporaryDirectory());
  const worker = spawnChild(stack, process.execPath, [
    join(import.meta.dirname, "lossy-disk-worker.ts"),
    join(work.path, "nbd.sock"),
    String(sizeBytes),
  ]);
  const lines = createInterface({ input: worker.stdout ?? process.stdin });
  await once(lines, "line");
  const image = join(work.path, "disk");
  await writeFile(image, "");
  spawnChild(stack, "qemu-storage-daemon", [
    "--blockdev",
    `driver=nbd,server.type=unix,server.path=${work.path}/nbd.sock,node-name=disk`,
    "--export",
    `type=fuse,id=export,node-name=disk,mountpoint=${image},writable=on`,
  ]);
  const { signal } = new AbortController();
  await eventually(
    async () => {
      if ((await stat(image)).size !== sizeBytes) throw new Error("not served yet");
    },
    { signal },
  );
  await run("mke2fs", ["-q", "-t", "ext4", "-F", image]);
  const mounted = stack.use(await mount(image, join(work.path, "mounted")));
  const kept = stack.move();
  let cuts = 0;
  return {
    path: mounted.path,
    cut: async (options) => {
      cuts += 1;
      const copy = join(work.path, `after-cut-${cuts}`);
      const { unflushed } = await ask(worker, lines, { ...options, path: copy });
      const target = join(work.path, `mounted-${cuts}`);
      return { unflushed, mount: () => mount(copy, target) };
    },
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  };
}

function spawnChild(stack: AsyncDisposableStack, program: string, args: readonly string[]): ChildProcess {
  const child = spawn(program, args, { stdio: ["pipe", "pipe", "inherit"] });
  stack.defer(async () => {
    const ended = once(child, "exit");
    if (child.exitCode !== null) return;
    child.kill("SIGTERM");
    await ended;
  });
  return child;
}

async function ask(worker: ChildProcess, lines: Interface, message: object): Promise<{ unflushed: number }> {
  const answer = once(lines, "line");
  worker.stdin?.write(`${JSON.stringify(message)}\n`);
  const [text] = (await answer) as [string];
  return JSON.parse(text) as { unflushed: number };
}

async function mount(image: string, path: string): Promise<Mounted> {
  await mkdir(path);
  await run("mount", ["-o", "loop", image, path]);
  return { path, [Symbol.asyncDispose]: async () => void (await run("umount", [path])) };
}
