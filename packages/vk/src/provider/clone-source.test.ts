/** The snapshot that a clone reads while it runs stays: a moved tag gets a name of its own, and nothing collects it. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { createRegistry } from "@cocoon/core";
import { openRegistry } from "@cocoon/oci";
import { startFakeRegistry } from "@cocoon/oci/testing";
import { temporaryDirectory } from "@cocoon/testkit";
import type { RuntimeDescription } from "@cocoon/vm";
import { FakeHost, FakeRuntime } from "@cocoon/vm/testing";
import { createVkMetrics } from "../metrics.ts";
import { findLocalSnapshot, openNodeSnapshots } from "../node-snapshots.ts";
import { machine } from "../testing/plan-fixtures.ts";
import { needsSnapshot } from "./clone-machine.ts";

test("a snapshot that clones read is neither replaced nor collected", async ({ signal }) => {
  await using directory = await temporaryDirectory();
  await using server = await startFakeRegistry();
  await using registry = openRegistry({ address: server.url });
  const runtime = new FakeRuntime(new FakeHost({ directory: join(directory.path, "vms") }));
  await using snapshots = await openNodeSnapshots({
    registry,
    runtime,
    node: "n",
    directory: join(directory.path, "node"),
    chunkStoreBytes: 2 ** 20,
    format: "v2",
    metrics: createVkMetrics(createRegistry("test")),
  });
  await runtime.run({ name: "source", image: "demo" }, { signal });
  await runtime.snapshots.save("source", { name: "vk-lab-a", signal });
  const common = { namespace: "lab", tag: "latest", baseImage: "", restoredFrom: "", vmId: "" };
  const { digest } = await snapshots.push({ vmName: "vk-lab-a", ...common, signal });
  // Another snapshot has the base's name: an older digest of it.
  const older = (await runtime.snapshots.save("source", { name: "base", signal })).snapshot;
  const source = { repository: "vk-lab-a", reference: "latest" };
  const beside = await snapshots.ensureLocal({ ...source, keepOlder: true }, "base", { signal });
  assert.equal(beside.name, `base-${digest.slice(7, 19)}`);
  assert.equal((await findLocalSnapshot(runtime, "base", { signal }))?.id, older.id);
  const reused = await snapshots.ensureLocal({ ...source, keepOlder: true }, "base", { signal });
  assert.equal(reused.id, beside.id);

  const clone = machine({}, { image: "base" });
  const isNeeded = (name: string, cloneStandsAlone: boolean) =>
    needsSnapshot(clone, name, { can: { cloneStandsAlone } as RuntimeDescription["can"] });
  for (const name of ["base", beside.name, "vk-lab-demo"]) assert.equal(isNeeded(name, false), true, name);
  assert.equal(isNeeded("other", false), false);
  assert.equal(isNeeded("base", true), false, "an engine that links files needs no base");

  const replaced = await snapshots.ensureLocal(source, "base", { signal });
  assert.equal(replaced.name, "base");
  assert.notEqual(replaced.id, older.id);
});
