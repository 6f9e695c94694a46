/** A machine that hibernates again and again sends what changed, and its repository does not grow without bound. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { it } from "node:test";
import { anchorTag, hibernateTag, sealTag } from "@cocoon/contract";
import { openRegistry, openSnapshotClient } from "@cocoon/oci";
import {
  readMachine,
  makeMachine,
  runMachine,
  startFakeRegistry,
  type FakeRegistry,
} from "@cocoon/oci/testing";
import { count, seededRandom, temporaryDirectory, testSeed } from "@cocoon/testkit";
import { MachineSnapshots } from "./machine-snapshots.ts";

const vmName = "vk-lab-atlas-0";

function storedBytes(server: FakeRegistry): number {
  server.collectGarbage();
  const blobs = [...(server.repos.get(vmName)?.blobs.values() ?? [])];
  return blobs.reduce((sum, { length }) => sum + length, 0);
}

function getTags(server: FakeRegistry): string[] {
  return [...(server.repos.get(vmName)?.tags.keys() ?? [])].toSorted();
}

for (const withStore of [true, false])
  it(`a machine that hibernates every night sends what changed ${withStore ? "from one node" : "from ever new nodes"}`, async (t) => {
    const { signal } = t;
    const random = seededRandom(testSeed());
    await using directory = await temporaryDirectory();
    await using server = await startFakeRegistry();
    await using registry = openRegistry({ address: server.url });
    const snapshots = new MachineSnapshots({ registry });
    const path = join(directory.path, "machine");
    let source = await makeMachine(path, random);
    let restoredFrom = "";
    let [first, peak] = [0, 0];
    for (let night = 0; night < count({ small: 5, full: 200 }); night += 1) {
      const store = { directory: join(directory.path, `node-${withStore ? 0 : night}`), limitBytes: 1 << 30 };
      await using client = await openSnapshotClient({ store, threads: 1 });
      const pushed = await snapshots.push({
        client,
        source,
        vmName,
        tag: hibernateTag,
        format: "packed",
        namespace: "lab",
        node: "a",
        vmId: `VM${night}`,
        baseImage: "",
        restoredFrom,
        pinFor: vmName,
        signal,
      });
      assert.deepEqual(getTags(server), [hibernateTag], "the anchor ends with the push");
      if (night === 0) first = pushed.bytesSent;
      else assert.ok(pushed.bytesSent < first * 0.6, `night ${night}: ${pushed.bytesSent} of ${first} bytes`);
      peak = Math.max(peak, storedBytes(server));
      await snapshots.seal(vmName, { digest: pushed.digest, node: "a" }, { signal });
      assert.deepEqual(getTags(server), [hibernateTag, sealTag]);

      const woken = join(directory.path, `woken-${night}`);
      const repository = registry.repository(vmName);
      await client.pull({ repository, reference: hibernateTag, directory: woken, signal });
      const expected = await readMachine(path);
      const found = await readMachine(woken);
      for (const [name, bytes] of expected) assert.ok(found.get(name)?.equals(bytes), `${name} differs`);

      restoredFrom = pushed.digest;
      await snapshots.drop(vmName, { digest: pushed.digest, namespace: "lab", restoredFrom }, { signal });
      assert.deepEqual(getTags(server), [anchorTag]);
      assert.equal(await snapshots.findHibernated(vmName, { signal }), undefined);
      assert.deepEqual(
        await snapshots.list(vmName, { signal }),
        [],
        "nothing can be restored from an anchor",
      );
      source = await runMachine(path, random);
    }
    t.diagnostic(`first ${first}, peak ${peak} bytes`);
    assert.ok(peak < first * 4, `the repository grew from ${first} to ${peak} bytes`);
    await snapshots.settle(
      vmName,
      { namespace: "lab", keep: true, purge: false, at: new Date() },
      { signal },
    );
    assert.deepEqual(getTags(server), [], "nothing of a deleted machine stays");
    assert.equal(storedBytes(server), 0);
  });
