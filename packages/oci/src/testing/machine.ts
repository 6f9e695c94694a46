/** Small machines for tests: directories with the kinds of files that snapshots have, made from a seed. */
import { mkdir, open, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import assert from "node:assert/strict";
import { listSourceFiles } from "../snapshot/source.ts";
import type { SnapshotSource } from "../snapshot/push-snapshot.ts";

export const testEnvelope = {
  config: {
    id: "ABCDEFGH",
    name: "golden",
    cpu: 2,
    memory: 512 << 20,
    hypervisor: "qemu",
    queue_size: 256,
    qemu: { version: 7 },
  },
  version: 1,
};

/** Memory with holes, a disk without, some text, an empty file. */
export async function makeMachine(
  directory: string,
  random: () => number,
  memoryBytes = 6 << 20,
): Promise<SnapshotSource> {
  await mkdir(directory, { recursive: true });
  await using memory = await open(join(directory, "memory"), "w");
  await memory.truncate(memoryBytes);
  for (let at = 0; at < memoryBytes; at += 256 << 10)
    if (random() < 0.4) await memory.write(content(random, 100_000), 0, 100_000, at);
  await writeFile(join(directory, "overlay.qcow2"), noise(random, 1_500_001));
  await writeFile(join(directory, "config.json"), '{"machine":"pc"}', { mode: 0o600 });
  await writeFile(join(directory, "empty"), "");
  return { envelope: testEnvelope, files: await listSourceFiles(directory) };
}

/** What a while of running does: pages change here and there, some appear, some vanish. */
export async function runMachine(directory: string, random: () => number): Promise<SnapshotSource> {
  await using memory = await open(join(directory, "memory"), "r+");
  const { size } = await memory.stat();
  for (let change = 0; change < 12; change += 1) {
    const at = Math.floor(random() * (size / 4096)) * 4096;
    const page = random() < 0.2 ? Buffer.alloc(4096) : content(random, 4096);
    await memory.write(page, 0, Math.min(4096, size - at), at);
  }
  await using disk = await open(join(directory, "overlay.qcow2"), "r+");
  const end = (await disk.stat()).size;
  if (random() < 0.5) await disk.write(noise(random, 50_000), 0, 50_000, end);
  await disk.write(noise(random, 3000), 0, 3000, Math.floor(random() * (end - 3000)));
  return { envelope: testEnvelope, files: await listSourceFiles(directory) };
}

function content(random: () => number, length: number): Buffer {
  return random() < 0.5 ? noise(random, length) : Buffer.alloc(length, `line ${random()} of some log\n`);
}

function noise(random: () => number, length: number): Buffer {
  const bytes = Buffer.alloc(length);
  for (let at = 0; at < length; at += 1) bytes[at] = Math.floor(random() * 256);
  return bytes;
}

/** The content of every file by name. */
export async function readMachine(directory: string): Promise<Map<string, Buffer>> {
  const files = await listSourceFiles(directory);
  return new Map(
    await Promise.all(
      files.map(async ({ name, path }): Promise<[string, Buffer]> => [name, await readFile(path)]),
    ),
  );
}

export async function assertMachine(directory: string, expected: ReadonlyMap<string, Buffer>): Promise<void> {
  const found = await readMachine(directory);
  assert.deepEqual([...found.keys()], [...expected.keys()]);
  for (const [name, bytes] of expected) assert.ok(found.get(name)?.equals(bytes), `${name} differs`);
}
