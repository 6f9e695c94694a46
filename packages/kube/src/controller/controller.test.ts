import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import { createRegistry, Fault, silentLogger } from "@cocoon/core";
import { count, eventually, seededRandom, testSeed } from "@cocoon/testkit";
import { FakeClock } from "@cocoon/core/testing";
import { keyText, resourceType, type KubeObject, type ObjectKey } from "../object.ts";
import { startController, type Controller, type ControllerOptions } from "./controller.ts";
import { requeue, settled, type Outcome } from "./reconcile-run.ts";
import { FakeSource } from "./testing/fake-source.ts";
import { generationChanged, watchMapped, watchObjects, watchOwned } from "./watches.ts";

const parents = resourceType<KubeObject>({
  group: "example.io",
  version: "v1",
  kind: "Parent",
  plural: "parents",
  namespaced: true,
});

function object(name: string, metadata: Partial<KubeObject["metadata"]> = {}): KubeObject {
  return { metadata: { namespace: "ns", name, uid: `uid-${name}`, generation: 1, ...metadata } };
}

const k = (name: string): ObjectKey => ({ namespace: "ns", name });

/** Lets everything that is ready run to its end. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 30; turn += 1) await nextTurn();
}

interface Setup {
  readonly controller: Controller;
  readonly source: FakeSource<KubeObject>;
  readonly clock: FakeClock;
  readonly seen: string[];
}

type SetupOptions = Partial<ControllerOptions> & {
  readonly source?: FakeSource<KubeObject>;
  readonly onKey?: (name: string, signal: AbortSignal) => Promise<Outcome> | Outcome;
};

function setUp({ source = new FakeSource(), onKey = () => settled, ...options }: SetupOptions = {}): Setup {
  const clock = new FakeClock();
  const seen: string[] = [];
  const controller = startController({
    name: "test",
    watches: [watchObjects(source)],
    log: silentLogger,
    signal: new AbortController().signal,
    clock,
    reconcile: async (key, { signal }) => {
      seen.push(key.name);
      return onKey(key.name, signal);
    },
    ...options,
    queue: { random: () => 0, backoffBaseMs: 10, backoffMaxMs: 60_000, ...options.queue },
  });
  return { controller, source, clock, seen };
}

describe("controller", () => {
  test("looks at every object, but not before all sources are synced", async () => {
    const source = new FakeSource<KubeObject>({ synced: false });
    source.set(object("early"));
    const { controller, seen } = setUp({ source });
    await using _controller = controller;
    source.set(object("late"));
    await settle();
    assert.deepEqual(seen, []);
    source.markSynced();
    await controller.ready;
    await settle();
    assert.deepEqual(new Set(seen), new Set(["early", "late"]));
  });

  test("a settled key is looked at again only when something changes", async () => {
    const { controller, source, seen, clock } = setUp();
    await using _controller = controller;
    source.set(object("a"));
    await settle();
    clock.advance(3_600_000);
    await settle();
    assert.deepEqual(seen, ["a"]);
    source.set(object("a", { generation: 2 }));
    await settle();
    source.delete(k("a"));
    await settle();
    assert.deepEqual(seen, ["a", "a", "a"]);
  });

  test("looks again after the requested time", async () => {
    const { controller, source, seen, clock } = setUp({ onKey: () => requeue(5_000, "waiting") });
    await using _controller = controller;
    source.set(object("a"));
    await settle();
    clock.advance(4_999);
    await settle();
    assert.equal(seen.length, 1);
    clock.advance(1);
    await settle();
    assert.equal(seen.length, 2);
  });

  test("`requeue soon` backs off instead of spinning", async () => {
    const { controller, source, seen, clock } = setUp({ onKey: () => requeue(0, "soon") });
    await using _controller = controller;
    source.set(object("a"));
    for (let ms = 0; ms < 1_000; ms += 10) {
      await settle();
      clock.advance(10);
    }
    assert.ok(seen.length > 3 && seen.length < 10, `${seen.length} looks in a second`);
  });

  test("never runs one key twice at once and never more than allowed together", async () => {
    const random = seededRandom(testSeed());
    const running = new Set<string>();
    let most = 0;
    const source = new FakeSource<KubeObject>();
    const { controller, seen } = setUp({
      source,
      concurrency: 3,
      onKey: async (name) => {
        assert.ok(!running.has(name), `${name} runs twice`);
        running.add(name);
        most = Math.max(most, running.size);
        for (let turn = random() * 4; turn > 0; turn -= 1) await nextTurn();
        running.delete(name);
        return settled;
      },
    });
    await using _controller = controller;
    for (let round = 0; round < count({ small: 300, full: 5_000 }); round += 1) {
      source.set(object(`o-${Math.floor(random() * 5)}`, { generation: round }));
      if (random() < 0.5) await nextTurn();
    }
    await eventually(() => assert.equal(running.size, 0));
    assert.deepEqual(controller.failing(), []);
    assert.equal(most, 3);
    assert.equal(new Set(seen).size, 5);
  });

  test("a failing key backs off and recovers; others are not held up", async () => {
    let broken = true;
    const onKey = (name: string): Outcome => {
      if (name === "bad" && broken) throw new Fault("unavailable", "registry does not answer");
      return settled;
    };
    const { controller, source, seen, clock } = setUp({ onKey });
    await using _controller = controller;
    source.set(object("bad"));
    source.set(object("good"));
    await settle();
    assert.deepEqual(seen, ["bad", "good"]);
    for (const ms of [10, 20, 40]) {
      clock.advance(ms - 1);
      await settle();
      const before = seen.length;
      clock.advance(1);
      await settle();
      assert.equal(seen.length, before + 1, `after ${ms} ms`);
    }
    assert.equal(controller.failing()[0]?.failures, 4);
    broken = false;
    clock.advance(80);
    await settle();
    assert.deepEqual(controller.failing(), []);
    clock.advance(3_600_000);
    await settle();
    assert.equal(seen.length, 6);
  });

  test("a fault that cannot mend itself is not hammered, is visible, and a change calls it back", async () => {
    const failures: string[] = [];
    const { controller, source, seen, clock } = setUp({
      onKey: () => {
        throw new Fault("invalid", "spec.image is missing");
      },
      onFailure: (failure) =>
        failures.push(`${keyText(failure.key)} ${failure.fault.code} ${failure.terminal}`),
    });
    await using _controller = controller;
    source.set(object("a"));
    await settle();
    clock.advance(59_999);
    await settle();
    assert.equal(seen.length, 1);
    assert.deepEqual(failures, ["ns/a invalid true"]);
    assert.deepEqual(
      controller.failing().map(({ key, terminal, retryInMs }) => [key.name, terminal, retryInMs]),
      [["a", true, 60_000]],
    );
    source.set(object("a", { generation: 2 }));
    await settle();
    assert.equal(seen.length, 2);
  });

  test("a Retry-After of the server is waited for", async () => {
    const { controller, source, seen, clock } = setUp({
      onKey: () => {
        throw new Fault("tooManyRequests", "slow down", { retryAfterMs: 7_000 });
      },
    });
    await using _controller = controller;
    source.set(object("a"));
    await settle();
    clock.advance(6_999);
    await settle();
    assert.equal(seen.length, 1);
    clock.advance(1);
    await settle();
    assert.equal(seen.length, 2);
  });

  test("an error that is no fault, and one thrown at once, are failures like any other", async () => {
    const source = new FakeSource<KubeObject>();
    const { controller } = setUp({
      source,
      reconcile: () => {
        throw new TypeError("undefined is not an object");
      },
    });
    await using _controller = controller;
    source.set(object("a"));
    await settle();
    assert.equal(controller.failing()[0]?.fault.code, "internal");
  });

  test("a failing failure hook does no harm", async () => {
    const { controller, source, seen, clock } = setUp({
      onKey: () => {
        throw new Fault("unavailable", "no");
      },
      onFailure: () => {
        throw new Error("hook");
      },
    });
    await using _controller = controller;
    source.set(object("a"));
    await settle();
    clock.advance(10);
    await settle();
    assert.equal(seen.length, 2);
  });

  test("a reconcile that takes too long is aborted, counts as failed, and is never doubled", async () => {
    const registry = createRegistry("test");
    const ended = Promise.withResolvers<void>();
    let abortedWith: unknown;
    const { controller, source, seen, clock } = setUp({
      registry,
      maxReconcileMs: 1_000,
      concurrency: 4,
      onKey: async (_name, signal) => {
        signal.addEventListener("abort", () => void (abortedWith = signal.reason));
        await ended.promise; // ignores the signal
        throw new Error("too late");
      },
    });
    await using _controller = controller;
    source.set(object("a"));
    await settle();
    clock.advance(1_000);
    assert.ok(abortedWith instanceof Fault && abortedWith.code === "timeout");
    source.set(object("a", { generation: 2 }));
    clock.advance(60_000);
    await settle();
    assert.equal(seen.length, 1, "still running, so not started again");
    assert.match(await registry.metrics(), /workqueue_longest_running_processor_seconds\{.*\} 61\b/);
    ended.resolve();
    await settle();
    assert.equal(controller.failing()[0]?.fault.code, "timeout");
    assert.match(
      await registry.metrics(),
      /controller_runtime_reconcile_timeouts_total\{controller="test"\} 1\b/,
    );
  });
});

describe("controller: watches", () => {
  test("predicates keep what does not matter away", async () => {
    const source = new FakeSource<KubeObject>();
    const predicate = generationChanged;
    const { controller, seen } = setUp({ source, watches: [watchObjects(source, { predicate })] });
    await using _controller = controller;
    source.set(object("a"));
    await settle();
    source.set(object("a", { annotations: { status: "written" } }));
    await settle();
    assert.equal(seen.length, 1);
    source.set(object("a", { generation: 2 }));
    await settle();
    assert.equal(seen.length, 2);
    source.set(object("a", { generation: 2, deletionTimestamp: "2026-01-01T00:00:00Z" }));
    await settle();
    assert.equal(seen.length, 3);
  });

  test("a change of an owned object looks at its managing owner, in whatever version it is written", async () => {
    const children = new FakeSource<KubeObject>();
    const { controller, seen } = setUp({ watches: [watchOwned(children, { owner: parents })] });
    await using _controller = controller;
    const owner = { apiVersion: "example.io/v1beta1", kind: "Parent", name: "p", uid: "u", controller: true };
    children.set(object("owned", { ownerReferences: [owner] }));
    children.set(object("not-managing", { ownerReferences: [{ ...owner, name: "x", controller: false }] }));
    children.set(object("other-group", { ownerReferences: [{ ...owner, name: "x", apiVersion: "v1" }] }));
    children.set(object("orphan"));
    await settle();
    assert.deepEqual(seen, ["p"]);
    children.delete(k("owned"));
    await settle();
    assert.deepEqual(seen, ["p", "p"]);
  });

  test("an update concerns what the old and what the new state maps to", async () => {
    const pods = new FakeSource<KubeObject>();
    const map = (pod: KubeObject) => Object.keys(pod.metadata.labels ?? {}).map(k);
    const { controller, seen } = setUp({ watches: [watchMapped(pods, { map })] });
    await using _controller = controller;
    pods.set(object("pod", { labels: { one: "" } }));
    await settle();
    pods.set(object("pod", { labels: { two: "" } }));
    await settle();
    assert.deepEqual(seen.toSorted(), ["one", "one", "two"]);
  });

  test("a filter or mapping that throws stops neither the source nor other objects", async () => {
    const source = new FakeSource<KubeObject>();
    const others = new FakeSource<KubeObject>();
    const watches = [
      watchObjects(source, {
        predicate: () => {
          throw new Error("filter");
        },
      }),
      watchMapped(others, {
        map: (each) => {
          if (each.metadata.name === "bad") throw new Error("mapping");
          return [k(`mapped-${each.metadata.name}`)];
        },
      }),
    ];
    const { controller, seen } = setUp({ source, watches });
    await using _controller = controller;
    source.set(object("a"));
    others.set(object("bad"));
    others.set(object("good"));
    await settle();
    assert.deepEqual(seen.toSorted(), ["a", "mapped-good"]);
  });

  test("a key can be enqueued by hand", async () => {
    const { controller, seen, clock } = setUp();
    await using _controller = controller;
    controller.enqueue(k("now"));
    controller.enqueue(k("later"), { afterMs: 500 });
    await settle();
    assert.deepEqual(seen, ["now"]);
    clock.advance(500);
    await settle();
    assert.deepEqual(seen, ["now", "later"]);
  });
});

describe("controller: resync, limits, metrics", () => {
  test("a resync looks at every object again, except those that are failing", async () => {
    const onKey = (name: string): Outcome => {
      if (name === "hopeless") throw new Fault("forbidden", "no");
      return settled;
    };
    const { controller, source, seen, clock } = setUp({ resyncMs: 15_000, onKey });
    await using _controller = controller;
    for (const name of ["a", "b", "hopeless"]) source.set(object(name));
    await settle();
    assert.equal(seen.length, 3);
    for (let round = 0; round < 3; round += 1) {
      clock.advance(15_000);
      await settle();
    }
    assert.deepEqual(seen.toSorted(), ["a", "a", "a", "a", "b", "b", "b", "b", "hopeless"]);
  });

  test("what a full queue refused is looked at later, every bit of it", async () => {
    const { controller, source, seen, clock } = setUp({ queue: { maxKeys: 3 } });
    await using _controller = controller;
    const names = Array.from({ length: 20 }, (_, index) => `o-${index}`);
    for (const name of names) source.set(object(name));
    await settle();
    assert.equal(new Set(seen).size, 3);
    for (let round = 0; round < 10; round += 1) {
      clock.advance(1_000);
      await settle();
    }
    assert.deepEqual(new Set(seen), new Set(names));
    const looks = seen.length;
    clock.advance(60_000);
    await settle();
    assert.equal(seen.length, looks, "and then it is quiet");
    assert.equal(clock.timerCount, 0);
  });

  test("metrics carry the names that dashboards know", async () => {
    const registry = createRegistry("test");
    const onKey = (name: string): Outcome => {
      if (name === "bad") throw new Fault("unavailable", "no");
      if (name === "hopeless") throw new Fault("invalid", "no");
      return name === "later" ? requeue(1_000, "later") : settled;
    };
    const first = setUp({ registry, onKey });
    const second = setUp({ registry, name: "other" });
    await using _first = first.controller;
    await using _second = second.controller;
    for (const name of ["good", "bad", "hopeless", "later"]) first.source.set(object(name));
    await settle();
    const text = await registry.metrics();
    for (const line of [
      'controller_runtime_reconcile_total{controller="test",result="success"} 1',
      'controller_runtime_reconcile_total{controller="test",result="error"} 2',
      'controller_runtime_reconcile_total{controller="test",result="requeue_after"} 1',
      'controller_runtime_reconcile_total{controller="other",result="success"} 0',
      'controller_runtime_reconcile_errors_total{controller="test"} 2',
      'controller_runtime_terminal_reconcile_errors_total{controller="test"} 1',
      'controller_faults_total{controller="test",code="unavailable"} 1',
      'controller_runtime_reconcile_time_seconds_count{controller="test"} 4',
      'controller_runtime_max_concurrent_reconciles{controller="test"} 1',
      'workqueue_depth{name="test",controller="test"} 0',
      'workqueue_delayed{name="test",controller="test"} 3',
      'workqueue_adds_total{name="test",controller="test"} 4',
      'workqueue_retries_total{name="test",controller="test"} 2',
      'workqueue_queue_duration_seconds_count{name="test",controller="test"} 4',
      'controller_failing_objects{controller="test",retry="false"} 1',
      'controller_failing_objects{controller="test",retry="true"} 1',
    ])
      assert.ok(text.includes(`${line}\n`), `${line} is missing in\n${text}`);
  });
});

describe("controller: the end", () => {
  test("a graceful stop waits for what runs and starts nothing new", async () => {
    const ended = Promise.withResolvers<void>();
    let sawAbort = false;
    const { controller, source, seen } = setUp({
      onKey: async (_name, signal) => {
        await ended.promise;
        sawAbort = signal.aborted;
        return settled;
      },
    });
    source.set(object("a"));
    source.set(object("b"));
    await settle();
    let stopped = false;
    const stopping = controller.stop().then(() => (stopped = true));
    source.set(object("c"));
    await settle();
    assert.equal(stopped, false);
    ended.resolve();
    await stopping;
    assert.equal(sawAbort, false);
    assert.deepEqual(seen, ["a"]);
    assert.equal(source.listenerCount, 0);
    await controller.stop();
  });

  test("after the grace period running reconciles are aborted", async () => {
    const { controller, source, clock } = setUp({
      onKey: (_name, signal) =>
        new Promise((_resolve, reject) => {
          signal.addEventListener("abort", () => reject(new Error("aborted")));
        }),
    });
    source.set(object("a"));
    await settle();
    const stopping = controller.stop({ graceMs: 1_000 });
    await settle();
    clock.advance(1_000);
    await stopping;
    assert.deepEqual(controller.failing(), [], "being stopped is not a failure");
    assert.equal(clock.timerCount, 0);
  });

  test("the signal aborts running reconciles at once", async () => {
    const lost = new AbortController();
    let aborted = false;
    const { controller, source } = setUp({
      signal: lost.signal,
      onKey: (_name, signal) =>
        new Promise((resolve) => {
          signal.addEventListener("abort", () => {
            aborted = true;
            resolve(settled);
          });
        }),
    });
    source.set(object("a"));
    await settle();
    lost.abort();
    assert.equal(aborted, true, "in the same turn");
    await controller.stop();
  });

  test("a reconcile that never ends makes stop fail instead of lying", async () => {
    const { controller, source, clock } = setUp({ onKey: () => new Promise(() => undefined) });
    source.set(object("a"));
    await settle();
    const stopping = assert.rejects(controller.stop({ graceMs: 10 }), /ns\/a/);
    await settle();
    clock.advance(10);
    await settle();
    clock.advance(10_000);
    await stopping;
  });

  test("stopped before its sources are synced, it says so and does nothing", async () => {
    const source = new FakeSource<KubeObject>({ synced: false });
    const { controller, seen } = setUp({ source });
    source.set(object("a"));
    await controller.stop();
    await assert.rejects(controller.ready);
    assert.deepEqual(seen, []);
  });
});
