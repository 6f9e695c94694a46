/** A machine that sleeps every night sends what changed, and its repository does not grow without bound. */
import assert from "node:assert/strict";
import { mkdir, open, readdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { anchorTag, hibernateTag } from "@cocoon/contract";
import { MachineSnapshots } from "@cocoon/machine";
import { fixedCredential, listSourceFiles, openRegistry, openSnapshotClient } from "@cocoon/oci";
import { testEnvelope } from "@cocoon/oci/testing";
import { startRegistry } from "@cocoon/registry";
import { count, seededRandom, temporaryDirectory, testSeed } from "@cocoon/testkit";

const { signal } = new AbortController();
const cycles = count({ small: 6, full: 200 });
const vmName = "vk-lab-night";
const node = "node-1";
const memoryBytes = 8 << 20;
const pageBytes = 4096;
const pagesPerDay = 16;
/** All content is new each time that its age exceeds this many machines' worth of changes. */
const mostTimesLarger = 3;

function noise(random: () => number, length: number): Buffer {
  return Buffer.from(Uint32Array.from({ length: length / 4 }, () => random() * 2 ** 32).buffer);
}

async function sumSizes(directory: string): Promise<number> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true });
  const files = entries.filter((each) => each.isFile());
  const sizes = await Promise.all(
    files.map(async (each) => (await stat(join(each.parentPath, each.name))).size),
  );
  return sizes.reduce((sum, size) => sum + size, 0);
}

test(`${cycles} nights: each sends what changed, and the registry stays small`, async (t) => {
  const random = seededRandom(testSeed());
  await using stack = new AsyncDisposableStack();
  const { path } = stack.use(await temporaryDirectory());
  const root = join(path, "registry");
  const server = stack.use(await startRegistry({ storage: { kind: "filesystem", root } }));
  const token = await server.createToken({ name: "test", scopes: ["repository:**:pull,push,delete"] });
  const credentials = fixedCredential({ kind: "bearer", token });
  const registry = stack.use(openRegistry({ address: server.url, credentials }));
  const store = { directory: join(path, "chunks"), limitBytes: 1 << 30 };
  const client = stack.use(await openSnapshotClient({ store, threads: 1 }));
  const snapshots = new MachineSnapshots({ registry });
  const directory = join(path, "machine");
  await mkdir(directory);
  await writeFile(join(directory, "memory"), noise(random, memoryBytes));
  const source = { envelope: testEnvelope, files: await listSourceFiles(directory) };
  const push = (tag: string, restoredFrom: string) =>
    snapshots.push({
      client,
      source,
      vmName,
      tag,
      namespace: "lab",
      node,
      vmId: "VM1",
      baseImage: "",
      restoredFrom,
      format: "packed",
      pinFor: vmName,
      signal,
    });
  let [restoredFrom, firstBytes, most, firstSent] = ["", 0, 0, 0];
  const sentLater: number[] = [];
  for (let night = 0; night < cycles; night += 1) {
    const ahead = await push(anchorTag, restoredFrom); // while it runs
    const { digest, bytesSent } = await push(hibernateTag, restoredFrom);
    const sent = ahead.bytesSent + bytesSent;
    if (night > 0) sentLater.push(sent);
    else firstSent = sent;
    // From time to time small packs become one, and what lives in a pack that is mostly dead is sent again: here that is one pack.
    assert.ok(sent <= firstSent * 1.1, `night ${night} sent ${sent} of ${firstSent} bytes`);
    await snapshots.seal(vmName, { digest, node }, { signal });
    await snapshots.claim(vmName, { digest, node }, { signal });
    assert.equal(
      await snapshots.drop(vmName, { digest, namespace: "lab", restoredFrom: digest }, { signal }),
      "dropped",
    );
    restoredFrom = digest;
    await server.collectGarbage({ signal, leaseMs: 0, untaggedMs: 0 });
    const stored = await sumSizes(join(root, "blobs"));
    if (night === 0) firstBytes = stored;
    most = Math.max(most, stored);
    assert.ok(
      stored < firstBytes * mostTimesLarger,
      `${stored} bytes after night ${night}, ${firstBytes} after the first`,
    );
    await using memory = await open(join(directory, "memory"), "r+");
    for (let page = 0; page < pagesPerDay; page += 1) {
      const at = Math.floor(random() * (memoryBytes / pageBytes)) * pageBytes;
      await memory.write(noise(random, pageBytes), 0, pageBytes, at);
    }
  }
  const mean = sentLater.reduce((sum, bytes) => sum + bytes, 0) / sentLater.length;
  t.diagnostic(
    `stored: first ${firstBytes} bytes, most ${most} bytes; sent: first ${firstSent}, mean of the others ${Math.round(mean)}, most ${Math.max(...sentLater)}`,
  );
  // A chunk is sixteen pages, all of which have changed at some time; indexes and manifests come on top.
  assert.ok(mean < pagesPerDay * 16 * pageBytes + 200_000, `a night sends ${mean} bytes`);
  const { digest } = await push(hibernateTag, restoredFrom);
  const pulled = join(path, "pulled");
  // On a node that has nothing of it.
  await using fresh = await openSnapshotClient({ threads: 1 });
  const repository = registry.repository(vmName);
  await fresh.pull({ repository, reference: digest, directory: pulled, name: "pulled", signal });
  const [there, here] = await Promise.all([pulled, directory].map((each) => readFile(join(each, "memory"))));
  assert.ok(there && here && there.equals(here), "what wakes after the last night is what slept");
});
