/** What `MachineSnapshots` promises, against any registry. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { claimTag, hibernateTag, latestTag, mediaType, sealTag, tryReadReleasedTag } from "@cocoon/contract";
import { isFault } from "@cocoon/core";
import type { Registry } from "@cocoon/oci";
import { MachineSnapshots } from "../machine-snapshots.ts";
import { putTestSnapshot } from "./put-snapshot.ts";

export interface SuiteRegistry extends AsyncDisposable {
  readonly registry: Registry;
}

const at = new Date("2026-05-06T07:08:09Z");
const namespace = "lab";
const vmName = "vk-lab-atlas-0";

interface World extends AsyncDisposable {
  readonly snapshots: MachineSnapshots;
  put(
    tag: string,
    snapshotId: string,
    more?: { restoredFrom?: string; created?: string; namespace?: string },
  ): Promise<string>;
  /** All tags with what they name. */
  tags(): Promise<Record<string, string>>;
}

export function machineSnapshotsSuite(name: string, open: () => Promise<SuiteRegistry>): void {
  const openWorld = async (signal: AbortSignal): Promise<World> => {
    const opened = await open();
    const { registry } = opened;
    const repository = registry.repository(vmName);
    return {
      snapshots: new MachineSnapshots({ registry, limits: { timeoutMs: 30_000 } }),
      put: (tag, snapshotId, more = {}) =>
        putTestSnapshot(registry, { vmName, tag, snapshotId, fromNode: "a", ...more }, { signal }),
      tags: async () => {
        const named: Record<string, string> = {};
        for await (const tag of repository.tags({ signal })) {
          const { digest, bytes } = await repository.getManifest(tag, { signal });
          // What a registry that cannot remove single tags is left with.
          if (!bytes.includes(mediaType.snapshotAnchor)) named[tag] = digest;
        }
        return named;
      },
      [Symbol.asyncDispose]: () => opened[Symbol.asyncDispose](),
    };
  };

  describe(`machine snapshots: ${name}`, () => {
    it("find nothing where nothing was pushed", async ({ signal }) => {
      await using world = await openWorld(signal);
      assert.equal(await world.snapshots.findHibernated(vmName, { signal }), undefined);
      assert.equal(await world.snapshots.findHibernatedDigest(vmName, { signal }), undefined);
      assert.deepEqual(await world.snapshots.list(vmName, { signal }), []);
      assert.equal(await world.snapshots.release(vmName, { namespace, at }, { signal }), undefined);
    });

    it("are sealed, claimed by one node, and sealed again when it gives the claim back", async ({
      signal,
    }) => {
      await using world = await openWorld(signal);
      const digest = await world.put(hibernateTag, "S1");
      await world.snapshots.seal(vmName, { digest, node: "a" }, { signal });
      const sealed = await world.snapshots.findHibernated(vmName, { signal });
      assert.deepEqual([sealed?.sealed, sealed?.claims], [true, []]);

      await world.snapshots.claim(vmName, { digest, node: "b" }, { signal });
      await world.snapshots.claim(vmName, { digest, node: "b" }, { signal });
      const claimed = await world.snapshots.findHibernated(vmName, { signal });
      assert.deepEqual([claimed?.sealed, claimed?.claims], [false, ["b"]]);
      await assert.rejects(world.snapshots.claim(vmName, { digest, node: "c" }, { signal }), /node b claims/);
      assert.deepEqual((await world.snapshots.findHibernated(vmName, { signal }))?.claims, ["b"]);

      await world.snapshots.seal(vmName, { digest, node: "b" }, { signal });
      const returned = await world.snapshots.findHibernated(vmName, { signal });
      assert.deepEqual([returned?.sealed, returned?.claims], [true, []]);
    });

    it("are claimed by at most one of several nodes that try at once", async ({ signal }) => {
      await using world = await openWorld(signal);
      const digest = await world.put(hibernateTag, "S1");
      const claims = ["a", "b", "c"].map((node) =>
        world.snapshots.claim(vmName, { digest, node }, { signal }),
      );
      const outcomes = await Promise.allSettled(claims);
      const won = outcomes.filter(({ status }) => status === "fulfilled").length;
      assert.ok(won <= 1, `${won} nodes claim the snapshot`);
      assert.equal((await world.snapshots.findHibernated(vmName, { signal }))?.claims.length, won);
    });

    it("of a fenced node lose its claim, and another node takes over", async ({ signal }) => {
      await using world = await openWorld(signal);
      const digest = await world.put(hibernateTag, "S1");
      await world.snapshots.claim(vmName, { digest, node: "b" }, { signal });
      await world.snapshots.verifyClaim(vmName, { digest, node: "b" }, { signal });
      await world.snapshots.removeClaim(vmName, "b", { signal });
      await world.snapshots.claim(vmName, { digest, node: "c" }, { signal });
      await world.snapshots.verifyClaim(vmName, { digest, node: "c" }, { signal });
      const late = world.snapshots.verifyClaim(vmName, { digest, node: "b" }, { signal });
      await assert.rejects(late, /node b does not claim .* any more/);
      assert.deepEqual(Object.keys(await world.tags()).sort(), [hibernateTag, claimTag("c")].sort());
    });

    it("are not sealed or claimed by a digest that is not the hibernated one", async ({ signal }) => {
      await using world = await openWorld(signal);
      const old = await world.put("other", "S0");
      await world.put(hibernateTag, "S1");
      const conflict = (error: unknown) => isFault(error, "conflict");
      await assert.rejects(world.snapshots.seal(vmName, { digest: old, node: "a" }, { signal }), conflict);
      await assert.rejects(world.snapshots.claim(vmName, { digest: old, node: "a" }, { signal }), conflict);
    });

    it("are dropped with seal and claim by the VM that was restored from them", async ({ signal }) => {
      await using world = await openWorld(signal);
      const digest = await world.put(hibernateTag, "S1");
      await world.snapshots.seal(vmName, { digest, node: "a" }, { signal });
      await world.snapshots.claim(vmName, { digest, node: "b" }, { signal });
      const drop = { digest, namespace, restoredFrom: digest };
      assert.equal(await world.snapshots.drop(vmName, drop, { signal }), "dropped");
      assert.equal(await world.snapshots.drop(vmName, drop, { signal }), "absent");
      assert.deepEqual(await world.tags(), {});
    });

    it("are never dropped without proof of descent", async ({ signal }) => {
      await using world = await openWorld(signal);
      const digest = await world.put(hibernateTag, "S1");
      for (const restoredFrom of ["", `sha256:${"0".repeat(64)}`])
        await assert.rejects(
          world.snapshots.drop(vmName, { digest, namespace, restoredFrom }, { signal }),
          (error: unknown) => isFault(error, "preconditionFailed"),
        );
      assert.deepEqual(await world.tags(), { [hibernateTag]: digest });
    });

    it("are kept when they are newer than what the VM was restored from", async ({ signal }) => {
      await using world = await openWorld(signal);
      const old = await world.put(hibernateTag, "S1");
      const newer = await world.put(hibernateTag, "S2");
      const drop = { digest: old, namespace, restoredFrom: old };
      assert.equal(await world.snapshots.drop(vmName, drop, { signal }), "kept");
      assert.equal((await world.tags())[hibernateTag], newer);
    });

    it("keep their other tags when they are dropped", async ({ signal }) => {
      await using world = await openWorld(signal);
      const digest = await world.put(hibernateTag, "S1");
      await world.snapshots.retag(vmName, { digest, tag: "mine" }, { signal });
      await world.snapshots.drop(vmName, { digest, namespace, restoredFrom: digest }, { signal });
      assert.deepEqual(await world.tags(), { mine: digest });
    });

    it("are renamed when they are released, once, under a tag of their own", async ({ signal }) => {
      await using world = await openWorld(signal);
      const first = await world.put(hibernateTag, "S1");
      await world.snapshots.seal(vmName, { digest: first, node: "a" }, { signal });
      const one = await world.snapshots.release(vmName, { namespace, at }, { signal });
      const second = await world.put(hibernateTag, "S2");
      const two = await world.snapshots.release(vmName, { namespace, at }, { signal });
      assert.ok(one && two && tryReadReleasedTag(two.tag));
      assert.deepEqual(await world.tags(), { [one.tag]: first, [two.tag]: second });
    });

    it("of another digest than the given one are not released", async ({ signal }) => {
      await using world = await openWorld(signal);
      const digest = await world.put(hibernateTag, "S1");
      const other = `sha256:${"0".repeat(64)}`;
      assert.equal(
        await world.snapshots.release(vmName, { namespace, at, digest: other }, { signal }),
        undefined,
      );
      assert.deepEqual(await world.tags(), { [hibernateTag]: digest });
    });

    it("become `latest` when their set is deleted, whatever the clocks of the nodes say", async ({
      signal,
    }) => {
      await using world = await openWorld(signal);
      const latest = await world.put(latestTag, "S1", { created: "2030-01-01T00:00:00Z" });
      const hibernated = await world.put(hibernateTag, "S2", { created: "2020-01-01T00:00:00Z" });
      await world.snapshots.settle(vmName, { namespace, keep: true, purge: false, at }, { signal });
      const tags = await world.tags();
      assert.equal(tags[latestTag], hibernated);
      assert.deepEqual(Object.values(tags).sort(), [latest, hibernated].sort());
    });

    it("replace an ancestor and give way to a descendant when their set is deleted", async ({ signal }) => {
      await using world = await openWorld(signal);
      const ancestor = await world.put(latestTag, "S1");
      const child = await world.put(hibernateTag, "S2", { restoredFrom: ancestor });
      await world.snapshots.settle(vmName, { namespace, keep: true, purge: false, at }, { signal });
      assert.deepEqual(await world.tags(), { [latestTag]: child });

      const stale = await world.put(hibernateTag, "S3");
      const newer = await world.put(latestTag, "S4", { restoredFrom: stale });
      await world.snapshots.settle(vmName, { namespace, keep: true, purge: false, at }, { signal });
      assert.deepEqual(await world.tags(), { [latestTag]: newer });
    });

    it("go with their set where the policy keeps nothing, and all of them in a purge", async ({ signal }) => {
      await using world = await openWorld(signal);
      await world.put(latestTag, "S1");
      await world.put(hibernateTag, "S2");
      const mine = await world.put("mine", "S3");
      await world.snapshots.settle(vmName, { namespace, keep: false, purge: false, at }, { signal });
      assert.deepEqual(await world.tags(), { mine });
      await world.snapshots.settle(vmName, { namespace, keep: false, purge: true, at }, { signal });
      assert.deepEqual(await world.tags(), {});
    });

    it("expire by age, hibernated ones never", async ({ signal }) => {
      await using world = await openWorld(signal);
      const digest = await world.put(hibernateTag, "S1", { created: "2020-01-01T00:00:00Z" });
      await world.snapshots.seal(vmName, { digest, node: "a" }, { signal });
      await world.put(latestTag, "S2", { created: "2020-01-01T00:00:00Z" });
      const old = await world.put("released-20200101T000000Z", "S3");
      await world.put("released-20200102T000000Z", "S4");
      const retention = { namespace, afterMs: 1000, keep: 1, now: at };
      const expired = await world.snapshots.expire(vmName, retention, { signal });
      assert.deepEqual([...expired].sort(), [latestTag, "released-20200101T000000Z"]);
      const tags = await world.tags();
      assert.deepEqual([tags[hibernateTag], tags[sealTag]], [digest, digest]);
      assert.ok(!Object.values(tags).includes(old));
    });

    it("of another namespace's machine of the same name are never dropped, renamed, settled or removed", async ({
      signal,
    }) => {
      await using world = await openWorld(signal);
      const more = { namespace: "lab-atlas", created: "2020-01-01T00:00:00Z" };
      const digest = await world.put(hibernateTag, "S1", more);
      await world.snapshots.seal(vmName, { digest, node: "a" }, { signal });
      await world.put(latestTag, "S2", more);
      await world.put("released-20200101T000000Z", "S3", more);
      await world.put("mine", "S4", more);
      const before = await world.tags();
      const drop = { digest, namespace, restoredFrom: digest };
      assert.equal(await world.snapshots.drop(vmName, drop, { signal }), "kept");
      assert.equal(await world.snapshots.release(vmName, { namespace, at }, { signal }), undefined);
      for (const [keep, purge] of [
        [true, false],
        [false, false],
        [false, true],
      ] as const)
        await world.snapshots.settle(vmName, { namespace, keep, purge, at }, { signal });
      const retention = { namespace, afterMs: 1000, keep: 0, now: at };
      assert.deepEqual(await world.snapshots.expire(vmName, retention, { signal }), []);
      const removed = world.snapshots.remove(vmName, { tag: "mine", namespace }, { signal });
      await assert.rejects(removed, (error: unknown) => isFault(error, "forbidden"));
      assert.deepEqual(await world.tags(), before);
    });

    it("of a deleted machine stay beside those of another namespace's machine of the same name", async ({
      signal,
    }) => {
      await using world = await openWorld(signal);
      const latest = await world.put(latestTag, "S1", { namespace: "lab-atlas" });
      const digest = await world.put(hibernateTag, "S2", { namespace });
      await world.snapshots.settle(vmName, { namespace, keep: true, purge: false, at }, { signal });
      const [tag = ""] = Object.keys(await world.tags()).filter((each) => tryReadReleasedTag(each));
      assert.deepEqual(await world.tags(), { [latestTag]: latest, [tag]: digest });
      await world.snapshots.settle(vmName, { namespace, keep: false, purge: true, at }, { signal });
      assert.deepEqual(await world.tags(), { [latestTag]: latest });
    });

    it("of another namespace's machine are not adopted", async ({ signal }) => {
      await using world = await openWorld(signal);
      await world.put("nap-1", "S1", { namespace: "lab-atlas" });
      const adopted = world.snapshots.adopt(vmName, { tag: "nap-1", namespace }, { signal });
      assert.equal(await adopted, undefined);
      assert.deepEqual(Object.keys(await world.tags()), ["nap-1"]);
    });

    it("are removed by tag, but not what the machine is hibernated in", async ({ signal }) => {
      await using world = await openWorld(signal);
      const digest = await world.put(hibernateTag, "S1");
      await world.snapshots.retag(vmName, { digest, tag: "mine" }, { signal });
      assert.equal(await world.snapshots.remove(vmName, { tag: "mine", namespace }, { signal }), true);
      assert.equal(await world.snapshots.remove(vmName, { tag: "mine", namespace }, { signal }), false);
      for (const tag of [hibernateTag, sealTag, claimTag("a")])
        await assert.rejects(world.snapshots.remove(vmName, { tag, namespace }, { signal }), /only copy/);
      assert.deepEqual(await world.tags(), { [hibernateTag]: digest });
    });

    it("of an older record are adopted unless the machine has one", async ({ signal }) => {
      await using world = await openWorld(signal);
      const old = await world.put("nap-1", "S1");
      assert.equal(await world.snapshots.adopt(vmName, { tag: "nap-1", namespace }, { signal }), old);
      const other = await world.put("nap-2", "S2");
      assert.equal(await world.snapshots.adopt(vmName, { tag: "nap-2", namespace }, { signal }), old);
      assert.deepEqual(await world.tags(), { [hibernateTag]: old, "nap-1": old, "nap-2": other });
      assert.equal(
        await world.snapshots.adopt("vk-lab-none-0", { tag: "nap-1", namespace }, { signal }),
        undefined,
      );
    });

    it("are listed by tag with their purpose, seal and claim left out", async ({ signal }) => {
      await using world = await openWorld(signal);
      const digest = await world.put(hibernateTag, "S1");
      await world.snapshots.seal(vmName, { digest, node: "a" }, { signal });
      await world.put(latestTag, "S2");
      const listed = await world.snapshots.list(vmName, { signal });
      const purposes = listed.map(({ tag, purpose }) => [tag, purpose]);
      assert.deepEqual(purposes, [
        [hibernateTag, "hibernated"],
        [latestTag, "latest"],
      ]);
    });
  });
}
