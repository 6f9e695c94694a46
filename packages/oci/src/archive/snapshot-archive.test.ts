import assert from "node:assert/strict";
import { join } from "node:path";
import { Readable } from "node:stream";
import { describe, it } from "node:test";
import { isFault } from "@cocoon/core";
import { seededRandom, temporaryDirectory, testSeed } from "@cocoon/testkit";
import { openRegistry } from "../registry/registry.ts";
import { snapshotFormats } from "../snapshot/push-snapshot.ts";
import { openSnapshotClient } from "../snapshot/snapshot-client.ts";
import { assertMachine, readMachine, makeMachine, runMachine } from "../testing/machine.ts";
import { startFakeRegistry } from "../testing/fake-registry.ts";
import { importArchive } from "./import-archive.ts";
import { snapshotArchive } from "./snapshot-archive.ts";

describe("a snapshot in a registry as an archive", () => {
  for (const format of snapshotFormats)
    it(`holds what was pushed, or breaks off: ${format}`, async ({ signal }) => {
      await using directory = await temporaryDirectory();
      await using server = await startFakeRegistry();
      await using registry = openRegistry({ address: server.url });
      const store = { directory: join(directory.path, "store"), limitBytes: 1 << 30 };
      await using client = await openSnapshotClient({ threads: 2, store });
      const random = seededRandom(testSeed());
      const repository = registry.repository("vm");
      const vm = join(directory.path, "vm");
      const options = { repository, tag: "t", format, signal } as const;
      await client.push({ ...options, source: await makeMachine(vm, random, 3 << 20) });
      await client.push({ ...options, source: await runMachine(vm, random) });
      const { bytes: manifest } = await repository.getManifest("t", { signal });
      const archive = (): Readable =>
        Readable.from(
          snapshotArchive({ manifest, name: "mine", read: (part) => repository.openBlob(part, { signal }) }),
          { objectMode: false },
        );
      const back = join(directory.path, "back");
      const envelope = await importArchive({ archive: archive(), directory: back, signal });
      assert.deepEqual([envelope.config.name, envelope.config.id], ["mine", "ABCDEFGH"]);
      await assertMachine(back, await readMachine(vm));

      const blobs = server.repos.get("vm")?.blobs;
      const needed = new Set(manifest.toString().match(/sha256:[0-9a-f]{64}/g));
      for (const digest of needed) {
        const bytes = blobs?.get(digest) ?? Buffer.alloc(0);
        if (bytes.length === 0) continue;
        const damaged = Buffer.from(bytes);
        // A pack may hold bytes that this snapshot does not use: damage all of it.
        for (let at = 0; at < damaged.length; at += 97) damaged[at] = (damaged[at] ?? 0) ^ 0x10;
        blobs?.set(digest, damaged);
        const place = join(directory.path, "bad");
        await assert.rejects(
          importArchive({ archive: archive(), directory: place, signal }),
          (error) => isFault(error),
          digest,
        );
        blobs?.set(digest, bytes);
      }
    });
});
