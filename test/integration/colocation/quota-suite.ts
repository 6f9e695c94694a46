/** A tree of quotas under many changes at once, decided by two replicas: sums hold, and no request is refused in error. */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { after, before, describe, test } from "node:test";
import { isFault } from "@cocoon/core";
import { pods, type KubeConnection, type Pod } from "@cocoon/kube";
import { elasticQuotas, type RunningColocation } from "@cocoon/colocation";
import { count, eventually } from "@cocoon/testkit";
import { startRoundRobinProxy, type RoundRobinProxy } from "../kube-admission/round-robin-proxy.ts";
import {
  sharedCluster,
  signal,
  startReplica,
  testSettings,
  unregister,
  type ColocationCluster,
} from "./cluster.ts";

export function quotaConcurrency(): void {
  describe("quotas decided by two replicas", () => {
    const names = { mutating: "test-quota-mutating", validating: "test-quota-validating" };

    let world: ColocationCluster;
    let proxy: RoundRobinProxy;
    const replicas: RunningColocation[] = [];

    before(async () => {
      world = await sharedCluster();
      proxy = await startRoundRobinProxy();
      for (let index = 0; index < 2; index += 1) {
        const settings = testSettings({
          featureGates: "EnableQuotaAdmission=true",
          configurationNames: names,
          url: { host: "127.0.0.1", port: proxy.port },
        });
        const replica = await startReplica(world, settings);
        replicas.push(replica);
        proxy.addServer(replica.server.port);
      }
    });

    after(async () => {
      await unregister(world.client, names);
      for (const replica of replicas) await replica[Symbol.asyncDispose]();
      await proxy?.[Symbol.asyncDispose]();
    });

    const key = (name: string) => `quota.scheduling.koordinator.sh/${name}`;

    interface Wanted {
      readonly name: string;
      readonly namespace: string;
      readonly parent?: string;
      readonly isParent?: boolean;
      readonly min: number;
      readonly max?: number;
    }

    function createQuota(
      client: KubeConnection,
      { name, namespace, parent, isParent, min, max = 10_000 }: Wanted,
    ) {
      const labels = {
        ...(parent ? { [key("parent")]: parent } : {}),
        ...(isParent ? { [key("is-parent")]: "true" } : {}),
      };
      return client.create(
        elasticQuotas,
        {
          metadata: { name, namespace, labels },
          spec: { min: { cpu: String(min) }, max: { cpu: String(max) } },
        },
        { signal },
      );
    }

    const maxTries = 20;

    /**
     * True when it was stored, false when a rule refused it; anything else is a failure of the test. Who is told that
     * there was no time to decide, by us or by the API server, asks again, as any client would.
     */
    async function outcome(work: () => Promise<unknown>, refusal: RegExp): Promise<boolean> {
      for (let tries = 1; ; tries += 1) {
        try {
          await work();
          return true;
        } catch (error) {
          assert.ok(isFault(error), String(error));
          if (/no decision within|context deadline exceeded/.test(error.message) && tries < maxTries)
            continue;
          assert.match(error.message, refusal);
          return false;
        }
      }
    }

    /** The stored minimum of each quota. */
    async function minimums(client: KubeConnection, namespace: string): Promise<Map<string, number>> {
      const { items } = await client.list(elasticQuotas, { namespace, signal });
      return new Map(
        items.map(({ metadata, spec }) => [metadata.name ?? "", Number(spec?.min?.["cpu"] ?? 0)]),
      );
    }

    test("200 creations and updates in a tree of three levels", async () => {
      const { client, cluster } = world;
      await using namespace = await cluster.newNamespace();
      const at = { namespace: namespace.name };
      await createQuota(client, { ...at, name: "company", isParent: true, min: 100 });
      const teams = ["red", "blue"];
      for (const team of teams)
        await createQuota(client, { ...at, name: team, parent: "company", isParent: true, min: 50 });
      const sums = /checkMinQuotaSum/;
      const rounds = count({ small: 100, full: 100 });

      // 50 of these fit under each team, in any order.
      const created = await Promise.all(
        Array.from({ length: rounds }, async (_, index) => {
          const name = `leaf-${index}`;
          const parent = teams[index % 2] ?? "";
          return outcome(() => createQuota(client, { ...at, name, parent, min: 1 }), sums);
        }),
      );
      assert.equal(created.filter(Boolean).length, rounds, "each of them fits");
      const extra = await Promise.all(
        teams.map((parent) =>
          outcome(() => createQuota(client, { ...at, name: `extra-${parent}`, parent, min: 1 }), sums),
        ),
      );
      assert.deepEqual(extra, [false, false], "the teams are full");

      // Half of the leaves give one back while the other half ask for one more: as many may grow as have shrunk.
      const updated = await Promise.all(
        Array.from({ length: rounds }, (_, index) => {
          const body = { spec: { min: { cpu: index < rounds / 2 ? "0" : "2" } } };
          const target = { key: { ...at, name: `leaf-${index}` }, patch: { type: "merge", body } as const };
          return outcome(() => client.patch(elasticQuotas, target, { signal }), sums);
        }),
      );
      assert.ok(updated.slice(0, rounds / 2).every(Boolean), "giving back is never refused");
      const stored = await minimums(client, namespace.name);
      for (const team of teams) {
        const sum = Array.from({ length: rounds }, (_, index) => index)
          .filter((index) => teams[index % 2] === team)
          .reduce((total, index) => total + (stored.get(`leaf-${index}`) ?? 0), 0);
        assert.ok(sum <= 50, `${team} has ${sum}`);
      }

      // What was refused in passing fits now that all is quiet.
      const late = updated.flatMap((done, index) => (done ? [] : [index]));
      for (const index of late) {
        const target = {
          key: { ...at, name: `leaf-${index}` },
          patch: { type: "merge", body: { spec: { min: { cpu: "2" } } } } as const,
        };
        assert.equal(await outcome(() => client.patch(elasticQuotas, target, { signal }), sums), true);
      }
      assert.ok([...proxy.handedOut.values()].length === 2, "both replicas were asked");
    });

    test("more creations than fit: exactly those that fit are stored", async () => {
      const { client, cluster } = world;
      await using namespace = await cluster.newNamespace();
      const at = { namespace: namespace.name };
      await createQuota(client, { ...at, name: "tight", isParent: true, min: 20 });
      const created = await Promise.all(
        Array.from({ length: 60 }, (_, index) =>
          outcome(
            () => createQuota(client, { ...at, name: `tight-${index}`, parent: "tight", min: 1 }),
            /checkMinQuotaSum/,
          ),
        ),
      );
      assert.equal(created.filter(Boolean).length, 20);
      assert.equal((await minimums(client, namespace.name)).size, 21);
    });

    test("a dry run takes no room", async () => {
      const { client, cluster } = world;
      await using namespace = await cluster.newNamespace();
      const at = { namespace: namespace.name };
      await createQuota(client, { ...at, name: "dry", isParent: true, min: 1 });
      const labels = { [key("parent")]: "dry" };
      for (let round = 0; round < 3; round += 1) {
        const metadata = { name: `dry-${round}`, namespace: namespace.name, labels };
        await client.create(
          elasticQuotas,
          { metadata, spec: { min: { cpu: "1" }, max: { cpu: "10000" } } },
          { signal, dryRun: true },
        );
      }
      await createQuota(client, { ...at, name: "dry-real", parent: "dry", min: 1 });
    });

    const createPod = (namespace: string, name: string, cpu: string): Pod => ({
      metadata: { name, namespace, labels: { [key("name")]: `leaf-of-${namespace}` } },
      spec: { containers: [{ name: "c", image: "i", resources: { requests: { cpu } } }] },
    });

    test("pods take room in their quota: no more than there is, and what is freed can be had again", async () => {
      const { client, cluster } = world;
      await using namespace = await cluster.newNamespace();
      const at = { namespace: namespace.name };
      const quota = `leaf-of-${namespace.name}`;
      await createQuota(client, {
        ...at,
        name: `top-of-${namespace.name}`,
        isParent: true,
        min: 40,
        max: 40,
      });
      await createQuota(client, {
        ...at,
        name: `mid-of-${namespace.name}`,
        parent: `top-of-${namespace.name}`,
        isParent: true,
        min: 40,
        max: 40,
      });
      await createQuota(client, { ...at, name: quota, parent: `mid-of-${namespace.name}`, min: 40, max: 40 });
      const create = (name: string, dryRun = false) =>
        outcome(
          () => client.create(pods, createPod(namespace.name, name, "1"), { signal, dryRun }),
          /exceeded quota/,
        );
      const dry = await Promise.all(Array.from({ length: 10 }, (_, index) => create(`dry-${index}`, true)));
      assert.ok(dry.every(Boolean));
      const made = await Promise.all(
        Array.from({ length: count({ small: 80, full: 200 }) }, (_, index) => create(`p-${index}`)),
      );
      assert.ok(made.filter(Boolean).length <= 40, "no more than fit");
      const full = (): Promise<Pod[]> =>
        eventually(
          async () => {
            const stored = (await client.list(pods, { namespace: namespace.name, signal })).items;
            // The room of one whose answer came too late for the API server is free again after a while.
            if (stored.length < 40) await create(`late-${randomBytes(3).toString("hex")}`);
            assert.equal(stored.length, 40, "as many as fit, no less and no more");
            return [...stored];
          },
          { timeoutMs: 120_000, intervalMs: 500 },
        );
      const items = await full();
      assert.equal(await create("one-more"), false);
      // Ten go, ten others come: the next request counts them out.
      const gone = items.slice(0, 10);
      await Promise.all(
        gone.map(({ metadata }) =>
          client.delete(
            pods,
            { namespace: namespace.name, name: metadata.name ?? "" },
            { signal, gracePeriodSeconds: 0 },
          ),
        ),
      );
      const again = await Promise.all(Array.from({ length: 20 }, (_, index) => create(`again-${index}`)));
      assert.ok(again.filter(Boolean).length <= 10);
      await full();
    });
  });
}
