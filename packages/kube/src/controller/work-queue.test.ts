import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { count, seededRandom, testSeed } from "@cocoon/testkit";
import fc from "fast-check";
import { FakeClock } from "@cocoon/core/testing";
import { WorkQueue, type Lane, type WorkQueueOptions } from "./work-queue.ts";

const backoff = { backoffBaseMs: 10, backoffMaxMs: 5_000, jitter: 0.3, failingFloorMs: 1_000 };

function queueWith(options: WorkQueueOptions = {}): { queue: WorkQueue; clock: FakeClock } {
  const clock = new FakeClock();
  return { clock, queue: new WorkQueue({ clock, ...backoff, ...options }) };
}

function takeAll(queue: WorkQueue): string[] {
  const keys: string[] = [];
  for (let key = queue.tryTake(); key !== undefined; key = queue.tryTake()) keys.push(key);
  return keys;
}

describe("work queue", () => {
  test("a key is there once, however often it was added", () => {
    const { queue } = queueWith();
    for (const key of ["a", "b", "a", "a"]) queue.add(key);
    assert.deepEqual(takeAll(queue), ["a", "b"]);
  });

  test("a key that runs is not handed out again before it is done", () => {
    const { queue } = queueWith();
    queue.add("a");
    assert.equal(queue.tryTake(), "a");
    queue.add("a");
    assert.equal(queue.tryTake(), undefined);
    queue.done("a");
    assert.equal(queue.tryTake(), "a");
    queue.done("a");
    assert.equal(queue.tryTake(), undefined);
  });

  test("of several wishes for one key the earliest counts", () => {
    const { queue, clock } = queueWith();
    queue.addAfter("a", 500);
    queue.addAfter("a", 100);
    queue.addAfter("a", 900);
    clock.advance(99);
    assert.equal(queue.tryTake(), undefined);
    clock.advance(1);
    assert.equal(queue.tryTake(), "a");
    queue.done("a");
    clock.advance(10_000);
    assert.equal(queue.tryTake(), undefined);
  });

  test("a delay that ends while the key runs is honoured when it is done", () => {
    const { queue, clock } = queueWith();
    queue.add("a");
    queue.tryTake();
    queue.addAfter("a", 50);
    clock.advance(60);
    assert.equal(queue.tryTake(), undefined);
    queue.done("a");
    assert.equal(queue.tryTake(), "a");
  });

  test("a delay longer than a timer can hold does not fire early", () => {
    const { queue, clock } = queueWith();
    queue.addAfter("a", 2 ** 33);
    clock.advance(2 ** 32);
    assert.equal(queue.tryTake(), undefined);
    clock.advance(2 ** 33);
    assert.equal(queue.tryTake(), "a");
  });

  test("a key that is added all the time does not starve the others", () => {
    const { queue } = queueWith();
    const others = Array.from({ length: 20 }, (_, index) => `cold-${index}`);
    queue.add("hot");
    for (const key of others) queue.add(key);
    const order: string[] = [];
    for (let turn = 0; turn < 22; turn += 1) {
      const key = queue.tryTake() ?? "nothing";
      order.push(key);
      queue.add("hot");
      queue.done(key);
      queue.add("hot");
    }
    assert.deepEqual(order, ["hot", ...others, "hot"]);
  });

  test("the background lets the others pass and still gets its share", () => {
    const { queue } = queueWith();
    for (let index = 0; index < 10; index += 1) queue.add(`resync-${index}`, "background");
    for (let index = 0; index < 100; index += 1) queue.add(`change-${index}`);
    const order = takeAll(queue);
    assert.deepEqual(order.slice(0, 5), ["change-0", "change-1", "change-2", "change-3", "resync-0"]);
    assert.equal(order.slice(0, 50).filter((key) => key.startsWith("resync")).length, 10);
    assert.equal(new Set(order).size, 110);
  });

  test("a key of the background that changes is promoted and runs once", () => {
    const { queue } = queueWith();
    queue.add("a", "background");
    queue.add("b", "background");
    queue.add("b");
    assert.deepEqual(takeAll(queue), ["b", "a"]);
  });

  test("a full queue refuses new keys, still takes wishes for known ones, and has room again later", () => {
    let refused = 0;
    const { queue } = queueWith({ maxKeys: 2, observer: { refused: () => void (refused += 1) } });
    assert.deepEqual(
      ["a", "b", "c", "a"].map((key) => queue.add(key)),
      [true, true, false, true],
    );
    assert.equal(queue.addAfter("d", 5), false);
    assert.equal(refused, 2);
    assert.equal(queue.tryTake(), "a");
    queue.done("a");
    assert.equal(queue.add("c"), true);
  });

  test("the queue shrinks: overtaken wishes and finished keys leave nothing behind", () => {
    const { queue, clock } = queueWith();
    for (let round = 0; round < 20_000; round += 1) {
      queue.addAfter("hot", 3_600_000 + round);
      queue.add("hot", round % 2 ? "background" : "normal");
      queue.add("hot");
      const key = queue.tryTake() ?? "";
      queue.addAfter(key, 3_600_000);
      queue.done(key);
    }
    assert.ok(queue.footprint < 200, `footprint ${queue.footprint}`);
    for (let index = 0; index < 20_000; index += 1) queue.add(`key-${index}`);
    for (const key of takeAll(queue)) queue.done(key);
    clock.advance(4_000_000);
    for (const key of takeAll(queue)) queue.done(key);
    assert.equal(queue.footprint, 0);
    assert.deepEqual(queue.stats(), {
      ready: 0,
      delayed: 0,
      running: 0,
      longestRunningMs: 0,
      unfinishedMs: 0,
    });
    assert.equal(clock.timerCount, 0);
  });

  test("failures back off, a change calls back early but never faster than the floor", () => {
    const { queue, clock } = queueWith({ random: () => 0 });
    const fail = (): number => {
      queue.tryTake();
      const delay = queue.retry("a");
      queue.done("a");
      return delay;
    };
    queue.add("a");
    const delays: number[] = [];
    for (let round = 0; round < 12; round += 1) {
      delays.push(fail());
      clock.advance(delays.at(-1) ?? 0);
    }
    assert.deepEqual(delays, [10, 20, 40, 80, 160, 320, 640, 1280, 2560, 5000, 5000, 5000]);
    fail();
    queue.add("a");
    clock.advance(999);
    assert.equal(queue.tryTake(), undefined, "a change right after a failure waits for the floor");
    clock.advance(1);
    assert.equal(queue.tryTake(), "a");
    queue.forget("a");
    queue.done("a");
    queue.add("a");
    assert.equal(fail(), 10);
  });

  test("a fault that retrying does not mend waits the longest delay at once", () => {
    const { queue, clock } = queueWith({ random: () => 0 });
    queue.add("a");
    queue.tryTake();
    assert.equal(queue.retry("a", { longest: true }), 5_000);
    queue.done("a");
    clock.advance(4_999);
    assert.equal(queue.tryTake(), undefined);
    clock.advance(1);
    assert.equal(queue.tryTake(), "a");
  });

  test("such a fault may wait longer than what a retry can mend", () => {
    const { queue } = queueWith({ random: () => 0, terminalBackoffMs: 60_000 });
    queue.add("a");
    queue.tryTake();
    assert.equal(queue.retry("a", { longest: true }), 60_000);
    queue.done("a");
    assert.equal(queue.getFailures("a"), 1);
  });

  test("a requested delay is honoured, even when changes come", () => {
    const { queue, clock } = queueWith();
    queue.add("a");
    queue.tryTake();
    assert.equal(queue.retry("a", { atLeastMs: 30_000 }), 30_000);
    queue.done("a");
    queue.add("a");
    clock.advance(29_999);
    assert.equal(queue.tryTake(), undefined);
    clock.advance(1);
    assert.equal(queue.tryTake(), "a");
  });

  test("a closed queue accepts and hands out nothing, and leaves no timer", () => {
    const { queue, clock } = queueWith();
    queue.addAfter("later", 100);
    queue.add("a");
    queue[Symbol.dispose]();
    assert.equal(queue.add("b"), false);
    assert.equal(queue.tryTake(), undefined);
    assert.equal(clock.timerCount, 0);
  });
});

interface KeyModel {
  running: boolean;
  /** When the next run is due; undefined when none was requested. */
  due: number | undefined;
  failures: number;
  notBefore: number;
  lastDelay: number;
}

interface Model {
  readonly keys: Map<string, KeyModel>;
}

interface Real {
  readonly queue: WorkQueue;
  readonly clock: FakeClock;
}

type QueueCommand = fc.Command<Model, Real>;

function getModel(model: Model, key: string): KeyModel {
  const known = model.keys.get(key) ?? {
    running: false,
    due: undefined,
    failures: 0,
    notBefore: 0,
    lastDelay: 0,
  };
  model.keys.set(key, known);
  return known;
}

function readyKeys(model: Model, now: number): string[] {
  return [...model.keys].flatMap(([key, state]) =>
    !state.running && state.due !== undefined && state.due <= now ? [key] : [],
  );
}

function expectRun(state: KeyModel, at: number): void {
  state.due = Math.min(state.due ?? Infinity, Math.max(at, state.notBefore));
}

function agree(model: Model, { queue, clock }: Real): void {
  const now = clock.now();
  const states = [...model.keys.values()];
  const stats = queue.stats();
  assert.equal(stats.ready, readyKeys(model, now).length, "ready");
  assert.equal(stats.running, states.filter((state) => state.running).length, "running");
  // What is due while it runs waits for `done`, neither ready nor delayed.
  assert.equal(
    stats.delayed,
    states.filter((state) => state.due !== undefined && state.due > now).length,
    "delayed",
  );
}

class Add implements QueueCommand {
  readonly key: string;
  readonly lane: Lane;
  constructor(key: string, lane: Lane) {
    this.key = key;
    this.lane = lane;
  }
  check = () => true;
  run(model: Model, real: Real): void {
    assert.equal(real.queue.add(this.key, this.lane), true);
    expectRun(getModel(model, this.key), real.clock.now());
    agree(model, real);
  }
  toString = () => `add(${this.key}, ${this.lane})`;
}

class AddAfter implements QueueCommand {
  readonly key: string;
  readonly ms: number;
  constructor(key: string, ms: number) {
    this.key = key;
    this.ms = ms;
  }
  check = () => true;
  run(model: Model, real: Real): void {
    assert.equal(real.queue.addAfter(this.key, this.ms), true);
    expectRun(getModel(model, this.key), real.clock.now() + this.ms);
    agree(model, real);
  }
  toString = () => `addAfter(${this.key}, ${this.ms})`;
}

class Take implements QueueCommand {
  check = () => true;
  run(model: Model, real: Real): void {
    const legal = readyKeys(model, real.clock.now());
    const key = real.queue.tryTake();
    if (legal.length === 0) return assert.equal(key, undefined, "taken too early or while running");
    assert.ok(key !== undefined && legal.includes(key), `took ${key}, legal were ${legal.join()}`);
    const state = getModel(model, key);
    state.running = true;
    state.due = undefined;
    agree(model, real);
  }
  toString = () => "take";
}

class Finish implements QueueCommand {
  readonly key: string;
  readonly how: "well" | "failed" | "for good";
  constructor(key: string, how: "well" | "failed" | "for good") {
    this.key = key;
    this.how = how;
  }
  check = (model: Readonly<Model>) => model.keys.get(this.key)?.running === true;
  run(model: Model, { queue, clock }: Real): void {
    const state = getModel(model, this.key);
    if (this.how === "well") {
      queue.forget(this.key);
      Object.assign(state, { failures: 0, notBefore: 0, lastDelay: 0 });
    } else this.#fail(state, { queue, clock });
    queue.done(this.key);
    state.running = false;
    agree(model, { queue, clock });
  }
  #fail(state: KeyModel, { queue, clock }: Real): void {
    const full = this.how === "for good" ? 5_000 : Math.min(5_000, 10 * 2 ** state.failures);
    const asked = state.due === undefined ? Infinity : Math.max(state.due - clock.now(), 0);
    const delay = queue.retry(this.key, { longest: this.how === "for good" });
    assert.ok(delay <= full, "never longer than the exponential delay");
    if (asked === Infinity) {
      assert.ok(delay >= full * 0.7, "jitter takes at most its share");
      if (full > state.lastDelay) assert.ok(delay >= state.lastDelay * 0.99, "delays grow up to the cap");
      state.lastDelay = full < 5_000 ? delay : 0;
    } else assert.ok(delay >= Math.min(full * 0.7, 1_000 * 0.7), "a change does not make it spin");
    state.failures += 1;
    state.notBefore = clock.now() + Math.min(delay, 1_000);
    state.due = clock.now() + delay;
  }
  toString = () => `finish(${this.key}, ${this.how})`;
}

class Advance implements QueueCommand {
  readonly ms: number;
  constructor(ms: number) {
    this.ms = ms;
  }
  check = () => true;
  run(model: Model, real: Real): void {
    real.clock.advance(this.ms);
    agree(model, real);
  }
  toString = () => `advance(${this.ms})`;
}

test("work queue: the invariants hold for any sequence of calls", () => {
  const key = fc.constantFrom("a", "b", "c", "d");
  const commands = [
    fc.tuple(key, fc.constantFrom<Lane>("normal", "background")).map(([k, lane]) => new Add(k, lane)),
    fc.tuple(key, fc.integer({ min: 0, max: 8_000 })).map(([k, ms]) => new AddAfter(k, ms)),
    fc.constant(new Take()),
    fc.constant(new Take()),
    fc.tuple(key, fc.constantFrom("well", "failed", "for good")).map(([k, how]) => new Finish(k, how)),
    fc
      .oneof(fc.integer({ min: 0, max: 50 }), fc.integer({ min: 0, max: 9_000 }))
      .map((ms) => new Advance(ms)),
  ];
  const seed = testSeed();
  fc.assert(
    fc.property(
      fc.commands(commands, { maxCommands: 120, size: "max" }),
      fc.integer(),
      (sequence, randomSeed) => {
        const clock = new FakeClock();
        const queue = new WorkQueue({ clock, ...backoff, random: seededRandom(randomSeed) });
        const model: Model = { keys: new Map() };
        fc.modelRun(() => ({ model, real: { queue, clock } }), sequence);
        drain(model, { queue, clock });
      },
    ),
    { seed, numRuns: count({ small: 300, full: 10_000 }) },
  );
});

/** Whatever was asked for and not answered yet is answered in the end, once, and then nothing is left. */
function drain(model: Model, { queue, clock }: Real): void {
  for (const [key, state] of model.keys) if (state.running) queue.done(key);
  clock.advance(20_000);
  const wanted = [...model.keys].flatMap(([key, state]) => (state.due === undefined ? [] : [key]));
  assert.deepEqual(takeAll(queue).sort(), wanted.sort(), "nothing added is lost, nothing comes twice");
  for (const key of wanted) queue.done(key);
  assert.equal(queue.footprint, 0);
}
