import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import { createRegistry, Fault, isFault, silentLogger, type Clock } from "@cocoon/core";
import { count, seededRandom, testSeed } from "@cocoon/testkit";
import { FakeClock } from "@cocoon/core/testing";
import { leases } from "../builtin.ts";
import type { Lease } from "../builtin-objects.ts";
import type { KubeClient } from "../client/client.ts";
import { guardedClient } from "./leadership.ts";
import { lead, type LeaderElectionOptions } from "./leader-election.ts";
import type { Leadership } from "./leadership.ts";
import { FakeCluster } from "./testing/fake-cluster.ts";

const lease = { namespace: "ns", name: "the-lease" };

async function settle(turns = 12): Promise<void> {
  for (let turn = 0; turn < turns; turn += 1) await nextTurn();
}

async function pass(clock: FakeClock, ms: number, stepMs = 250): Promise<void> {
  for (let left = ms; left > 0; left -= stepMs) {
    clock.advance(Math.min(stepMs, left));
    await settle();
  }
}

interface Candidate {
  readonly stop: AbortController;
  readonly result: Promise<unknown>;
  leadership: Leadership | undefined;
}

interface World {
  readonly server: FakeCluster;
  readonly clock: FakeClock;
}

function newWorld(): World {
  return { server: new FakeCluster(), clock: new FakeClock() };
}

/** A replica whose body leads until it is stopped or loses the lease. */
function candidate(
  { server, clock }: World,
  identity: string,
  options: Partial<LeaderElectionOptions> & { readonly body?: (each: Leadership) => Promise<unknown> } = {},
): Candidate {
  const stop = new AbortController();
  const { body, ...rest } = options;
  const self: { leadership: Leadership | undefined } = { leadership: undefined };
  const result = lead(
    {
      client: server.client(),
      lease,
      signal: stop.signal,
      log: silentLogger,
      identity,
      clock,
      random: () => 0,
      ...rest,
    },
    async (leadership) => {
      self.leadership = leadership;
      if (body) return body(leadership);
      await new Promise<void>((resolve) => {
        stop.signal.addEventListener("abort", () => resolve());
        leadership.signal.addEventListener("abort", () => resolve());
      });
      return "done";
    },
  );
  result.catch(() => undefined);
  return Object.assign(self, { stop, result });
}

const record = (server: FakeCluster) => server.objects<Lease>("leases")[0]?.spec;

describe("leader election", () => {
  test("one leads, and writes a lease that other implementations understand", async () => {
    const world = newWorld();
    const registry = createRegistry("test");
    const a = candidate(world, "a", { registry });
    await settle();
    const b = candidate(world, "b");
    await pass(world.clock, 60_000, 500);
    assert.ok(a.leadership && !b.leadership);
    a.leadership.assertHeld();
    const spec = record(world.server);
    assert.equal(spec?.holderIdentity, "a");
    assert.equal(spec?.leaseDurationSeconds, 15);
    assert.equal(spec?.leaseTransitions, 0);
    assert.match(spec?.renewTime ?? "", /^2026-01-01T00:00:\d\d\.\d{6}Z$|^2026-01-01T00:01:\d\d\.\d{6}Z$/);
    assert.match(await registry.metrics(), /leader_election_master_status\{name="the-lease"\} 1/);
    a.stop.abort();
    b.stop.abort();
    assert.equal(await a.result, "done");
    assert.equal(await b.result, undefined);
    assert.match(await registry.metrics(), /leader_election_master_status\{name="the-lease"\} 0/);
  });

  test("a released lease is taken at the next try, and the epoch grows", async () => {
    const world = newWorld();
    const a = candidate(world, "a");
    await settle();
    const b = candidate(world, "b");
    await settle();
    a.stop.abort();
    await a.result;
    assert.equal(record(world.server)?.holderIdentity, undefined);
    await pass(world.clock, 2_500);
    assert.equal(b.leadership?.epoch, 1);
    b.stop.abort();
    await b.result;
  });

  test("the lease is kept while the body shuts down, and released only after", async () => {
    const world = newWorld();
    const ended = Promise.withResolvers<void>();
    const a = candidate(world, "a", { body: () => ended.promise });
    await settle();
    const b = candidate(world, "b");
    a.stop.abort();
    await pass(world.clock, 60_000, 500);
    assert.equal(b.leadership, undefined, "the old leader still works");
    ended.resolve();
    await a.result;
    await pass(world.clock, 2_500);
    assert.ok(b.leadership);
    b.stop.abort();
    await b.result;
  });

  test("a leader that vanished is followed after the lease, not before", async () => {
    const world = newWorld();
    let cut = false;
    const before = (): Promise<void> | undefined => (cut ? new Promise<void>(() => undefined) : undefined);
    candidate(world, "a", { client: world.server.client({ before }) });
    await settle();
    const b = candidate(world, "b");
    await pass(world.clock, 4_000);
    cut = true;
    await pass(world.clock, 13_500);
    assert.equal(b.leadership, undefined);
    await pass(world.clock, 4_500);
    assert.ok(b.leadership);
    b.stop.abort();
    await b.result;
  });

  test("a leader that cannot renew is stopped before another one can take over", async () => {
    const world = newWorld();
    let down = false;
    const before = (): void => {
      if (down) throw new Fault("unavailable", "no route");
    };
    const a = candidate(world, "a", { client: world.server.client({ before }) });
    await settle();
    const b = candidate(world, "b");
    await pass(world.clock, 2_000);
    down = true;
    let lostAt: number | undefined;
    a.leadership?.signal.addEventListener("abort", () => void (lostAt = world.clock.now()));
    let tookOverAt: number | undefined;
    for (let step = 0; step < 200 && tookOverAt === undefined; step += 1) {
      await pass(world.clock, 100, 100);
      if (b.leadership) tookOverAt = world.clock.now();
    }
    assert.ok(lostAt !== undefined && tookOverAt !== undefined);
    assert.ok(tookOverAt - lostAt >= 4_000, `stopped only ${tookOverAt - lostAt} ms before`);
    await assert.rejects(
      a.result,
      (error) => isFault(error, "unavailable") && /leadership lost/.test(error.message),
    );
    b.stop.abort();
    await b.result;
  });

  test("short problem is survived", async () => {
    const world = newWorld();
    let down = false;
    const before = (): void => {
      if (down) throw new Fault("unavailable", "no route");
    };
    const a = candidate(world, "a", { client: world.server.client({ before }) });
    await settle();
    for (let round = 0; round < 5; round += 1) {
      down = true;
      await pass(world.clock, 6_000);
      down = false;
      await pass(world.clock, 6_000);
    }
    a.leadership?.assertHeld();
    a.stop.abort();
    assert.equal(await a.result, "done");
  });

  test("a process that was stopped may not act when it wakes, not even before its timers run", async () => {
    const world = newWorld();
    const a = candidate(world, "a");
    await settle();
    const { leadership } = a;
    assert.ok(leadership);
    const guarded = guardedClient(world.server.client(), leadership);
    const options = { signal: new AbortController().signal };
    await guarded.create(leases, { metadata: { namespace: "ns", name: "while-leading" } }, options);
    world.clock.freeze(11_000);
    assert.throws(() => leadership.assertHeld(), /leadership lost/);
    await assert.rejects(
      guarded.create(leases, { metadata: { namespace: "ns", name: "too-late" } }, options),
      /leadership lost/,
    );
    await guarded.get(leases, lease, options);
    assert.deepEqual(world.server.objects("leases").length, 2);
    await assert.rejects(a.result, /leadership lost/);
  });

  test("a suspended machine, whose steady clock stood still, loses by its wall clock", async () => {
    const world = newWorld();
    const a = candidate(world, "a");
    await settle();
    world.clock.jumpWall(11_000);
    assert.throws(() => a.leadership?.assertHeld(), /leadership lost/);
    await assert.rejects(a.result, /leadership lost/);
  });

  test("wrong wall clocks do not matter: only what was observed counts", async () => {
    const world = newWorld();
    const a = candidate(world, "a");
    await settle();
    const ahead: Clock = {
      now: () => world.clock.now() + 77_777,
      wallNow: () => world.clock.wallNow() + 3_600_000,
      schedule: (ms, callback) => world.clock.schedule(ms, callback),
    };
    const b = candidate(world, "b", { clock: ahead });
    await pass(world.clock, 60_000, 500);
    assert.ok(a.leadership && !a.leadership.signal.aborted && !b.leadership);
    a.stop.abort();
    b.stop.abort();
    await Promise.all([a.result, b.result]);
  });

  test("a lease that was taken or deleted behind our back ends the leadership at the next renewal", async () => {
    for (const tamper of ["taken", "deleted"] as const) {
      const world = newWorld();
      const client: KubeClient = world.server.client();
      const options = { signal: new AbortController().signal };
      const a = candidate(world, "a");
      await settle();
      const current = await client.get(leases, lease, options);
      if (tamper === "deleted") {
        await client.delete(leases, lease, options);
        await client.create(
          leases,
          { metadata: lease, spec: { ...current.spec, holderIdentity: "thief", renewTime: "now" } },
          options,
        );
      } else
        await client.update(
          leases,
          { ...current, spec: { ...current.spec, holderIdentity: "thief" } },
          options,
        );
      await pass(world.clock, 2_500);
      await assert.rejects(a.result, /thief holds the lease/);
      assert.equal(record(world.server)?.holderIdentity, "thief", "and the thief's lease is not released");
    }
  });

  test("a renewal that was lost on the way back is found again", async () => {
    const world = newWorld();
    let lose = 0;
    const after = ({ verb }: { readonly verb: string }): void => {
      if (verb === "update" && lose > 0) {
        lose -= 1;
        throw new Fault("timeout", "no answer");
      }
    };
    const a = candidate(world, "a", { client: world.server.client({ after }) });
    await settle();
    for (let round = 0; round < 10; round += 1) {
      lose = 2;
      await pass(world.clock, 8_000);
    }
    assert.equal(a.leadership?.signal.aborted, false);
    a.stop.abort();
    assert.equal(await a.result, "done");
    assert.equal(record(world.server)?.holderIdentity, undefined);
  });

  test("the lease counts from when it was requested, not from when the answer came", async () => {
    const world = newWorld();
    let slow = true;
    const after = async (): Promise<void> => {
      if (slow) await new Promise<void>((resolve) => world.clock.schedule(12_000, resolve));
      slow = false;
    };
    const client = world.server.client({ after: (call) => (call.verb === "create" ? after() : undefined) });
    let updatesBefore: number | undefined;
    const body = (): Promise<void> => {
      updatesBefore = world.server.calls.filter((call) => call.verb === "update").length;
      return Promise.resolve();
    };
    const a = candidate(world, "a", { client, body });
    await pass(world.clock, 13_000);
    await a.result;
    assert.equal(updatesBefore, 1, "it wrote once more before it led");
  });

  test("a body that does not end when leadership is lost is abandoned before the lease expires", async () => {
    const world = newWorld();
    let down = false;
    const before = (): void => {
      if (down) throw new Fault("unavailable", "no route");
    };
    const client = world.server.client({ before });
    const a = candidate(world, "a", { client, body: () => new Promise(() => undefined) });
    await settle();
    down = true;
    let failure: unknown;
    a.result.catch((error: unknown) => (failure = error));
    await pass(world.clock, 14_500);
    assert.equal(failure, undefined);
    await pass(world.clock, 1_000);
    assert.ok(isFault(failure, "timeout"));
  });

  test("what the body throws comes out, and the lease is free", async () => {
    const world = newWorld();
    const a = candidate(world, "a", { body: () => Promise.reject(new Fault("internal", "bug")) });
    await settle();
    await assert.rejects(a.result, /bug/);
    assert.equal(record(world.server)?.holderIdentity, undefined);
    assert.equal(world.clock.timerCount, 0);
  });

  test("times that cannot be safe are refused", async () => {
    const { server, clock } = newWorld();
    const base = { client: server.client(), lease, signal: AbortSignal.abort(), log: silentLogger, clock };
    const body = () => Promise.resolve();
    await assert.rejects(lead({ ...base, leaseDurationMs: 1_500 }, body), /whole seconds/);
    await assert.rejects(lead({ ...base, renewDeadlineMs: 15_000 }, body), /renew deadline/);
    await assert.rejects(lead({ ...base, retryPeriodMs: 9_000 }, body), /retry period/);
  });
});

/**
 * A replica as the network and the scheduler treat it: its clock runs a little fast or slow, its calls take time and
 * get lost, and it stops for a while; what fell due meanwhile runs in any order when it wakes.
 */
class ShakyClock implements Clock {
  readonly #base: FakeClock;
  readonly #rate: number;
  readonly #random: () => number;
  #paused: (() => void)[] | undefined;

  constructor(base: FakeClock, rate: number, random: () => number) {
    this.#base = base;
    this.#rate = rate;
    this.#random = random;
  }

  now = (): number => this.#base.now() * this.#rate;
  wallNow = (): number => this.#base.wallNow() * this.#rate;

  schedule(ms: number, callback: () => void): () => void {
    let cancelled = false;
    const fire = (): void => {
      if (!cancelled) callback();
    };
    const cancel = this.#base.schedule(ms / this.#rate, () => {
      if (this.#paused) this.#paused.push(fire);
      else fire();
    });
    return () => {
      cancelled = true;
      cancel();
    };
  }

  get paused(): boolean {
    return this.#paused !== undefined;
  }

  pause(): void {
    this.#paused ??= [];
  }

  resume(): void {
    const waiting = this.#paused ?? [];
    this.#paused = undefined;
    for (const fire of waiting.toSorted(() => this.#random() - 0.5)) fire();
  }
}

test("leader election: never two at once, whatever clocks, network and pauses do", async () => {
  const rounds = count({ small: 8, full: 200 });
  let takenOver = 0;
  for (let round = 0; round < rounds; round += 1) {
    const seed = testSeed() + round;
    const random = seededRandom(seed);
    const world = newWorld();
    const clocks = [0.97, 1, 1.03].map((rate) => new ShakyClock(world.clock, rate, random));
    const delay = (clock: Clock, ms: number) => new Promise<void>((resolve) => clock.schedule(ms, resolve));
    const failing = async (clock: Clock): Promise<void> => {
      await delay(clock, random() * (random() < 0.1 ? 6_000 : 300));
      if (random() < 0.1) throw new Fault("timeout", "lost");
    };
    const replicas = clocks.map((clock, index) => {
      const restart = { current: undefined as Candidate | undefined, generation: 0 };
      const start = (): void => {
        restart.generation += 1;
        const client = world.server.client({ before: () => failing(clock), after: () => failing(clock) });
        const each = candidate(world, `replica-${index}-${restart.generation}`, { client, clock, random });
        restart.current = each;
        each.result.then(start, start);
      };
      start();
      return { clock, restart };
    });
    let acts = 0;
    const leaders = new Set<string>();
    for (let ms = 0; ms < 300_000; ms += 200) {
      world.clock.advance(200);
      for (const { clock } of replicas) if (!clock.paused && random() < 0.002) clock.pause();
      for (const { clock } of replicas) {
        if (!clock.paused || random() > 0.01) continue;
        clock.resume();
      }
      // Without letting anything settle first: this is the first thing that runs after a pause.
      const acting = replicas.flatMap(({ clock, restart }) => {
        const leadership = restart.current?.leadership;
        if (clock.paused || !leadership || leadership.signal.aborted) return [];
        try {
          leadership.assertHeld();
          return [leadership];
        } catch {
          return [];
        }
      });
      assert.ok(
        acting.length <= 1,
        `two leaders at once (seed ${seed}): ${acting.map((each) => each.identity).join()}`,
      );
      acts += acting.length;
      for (const each of acting) leaders.add(each.identity);
      await settle(4);
    }
    assert.ok(acts > 300, `hardly any candidate led (${acts} of 1500 steps, seed ${seed})`);
    takenOver += leaders.size > 1 ? 1 : 0;
    for (const { restart, clock } of replicas) {
      clock.resume();
      restart.current?.stop.abort();
    }
  }
  // In a lucky world the first leader stays; in most it does not, or the test would show nothing.
  assert.ok(takenOver > rounds / 2, `a takeover happened in ${takenOver} of ${rounds} worlds only`);
});
