import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import { createRegistry, Fault, silentLogger } from "@cocoon/core";
import { FakeClock } from "@cocoon/core/testing";
import { resourceType, type KubeObject } from "../object.ts";
import type { CoreEvent } from "../builtin-objects.ts";
import { referenceTo, type EventInput, type EventReference } from "./event-object.ts";
import { startEventRecorder, type EventRecorderOptions } from "./event-recorder.ts";
import { EventTallies } from "./event-tally.ts";
import { FakeCluster, type FakeCall } from "./testing/fake-cluster.ts";

const things = resourceType<KubeObject>({
  group: "example.io",
  version: "v1",
  kind: "Thing",
  plural: "things",
  namespaced: true,
});
const about = (name: string): EventReference =>
  referenceTo(things, { metadata: { namespace: "ns", name, uid: `uid-${name}`, resourceVersion: "7" } });
const started: EventInput = { type: "Normal", reason: "Started", message: "machine is up" };

type Hook = (call: FakeCall) => void | Promise<void>;

function setUp(options: Partial<EventRecorderOptions> & { readonly before?: Hook } = {}) {
  const server = new FakeCluster();
  const clock = new FakeClock();
  const { before, ...rest } = options;
  const recorder = startEventRecorder({
    client: server.client(before ? { before } : {}),
    log: silentLogger,
    clock,
    component: "test-controller",
    host: "host-1",
    ...rest,
  });
  const events = () => server.objects<CoreEvent>("events");
  return { server, clock, recorder, events };
}

async function settle(turns = 30): Promise<void> {
  for (let turn = 0; turn < turns; turn += 1) await nextTurn();
}

async function pass(clock: FakeClock, ms: number, stepMs: number): Promise<void> {
  for (let left = ms; left > 0; left -= stepMs) {
    clock.advance(stepMs);
    await settle(6);
  }
}

describe("event recorder", () => {
  test("what happens again while it is being written is counted, also when the recorder closes meanwhile", async () => {
    const arrived = Promise.withResolvers<void>();
    const mayGoOn = Promise.withResolvers<void>();
    const { recorder, events } = setUp({
      before: async () => {
        arrived.resolve();
        await mayGoOn.promise;
      },
    });
    recorder.record(about("a"), started);
    await arrived.promise;
    recorder.record(about("a"), started);
    const closed = recorder[Symbol.asyncDispose]();
    mayGoOn.resolve();
    await closed;
    assert.deepEqual(
      events().map(({ count }) => count),
      [2],
    );
  });

  test("an event is complete for both event APIs", async () => {
    const { recorder, events } = setUp();
    await using _recorder = recorder;
    recorder.record(about("a"), started);
    await settle();
    const [event] = events();
    assert.ok(event?.metadata.name?.startsWith("a."));
    assert.ok(event);
    const { metadata, ...body } = event;
    assert.deepEqual(body, {
      involvedObject: {
        apiVersion: "example.io/v1",
        kind: "Thing",
        namespace: "ns",
        name: "a",
        uid: "uid-a",
        resourceVersion: "7",
      },
      type: "Normal",
      reason: "Started",
      message: "machine is up",
      action: "Started",
      source: { component: "test-controller", host: "host-1" },
      reportingComponent: "test-controller",
      reportingInstance: "test-controller-host-1",
      eventTime: "2026-01-01T00:00:00.000000Z",
      firstTimestamp: "2026-01-01T00:00:00Z",
      lastTimestamp: "2026-01-01T00:00:00Z",
      count: 1,
    });
    assert.equal(metadata.namespace, "ns");
  });

  test("the same again raises the count of the one event, with ever fewer writes", async () => {
    const { recorder, events, clock, server } = setUp();
    await using _recorder = recorder;
    for (let second = 0; second < 600; second += 1) {
      recorder.record(about("a"), started);
      recorder.record(about("a"), started);
      await pass(clock, 1_000, 1_000);
    }
    assert.equal(events().length, 1);
    const count = events()[0]?.count ?? 0;
    assert.ok(count > 500 && count <= 1_200, `count ${count}`);
    assert.deepEqual(events()[0]?.series?.count, count);
    assert.ok(server.calls.length < 15, `${server.calls.length} writes for 1200 events`);
  });

  test("when the program ends the last count is written", async () => {
    const { recorder, events } = setUp();
    for (let index = 0; index < 7; index += 1) recorder.record(about("a"), started);
    await recorder[Symbol.asyncDispose]();
    assert.equal(events()[0]?.count, 7);
    recorder.record(about("a"), started);
    await settle();
    assert.equal(events()[0]?.count, 7, "after the end nothing is recorded");
  });

  test("different reasons, types and objects are different events", async () => {
    const { recorder, events } = setUp();
    await using _recorder = recorder;
    recorder.record(about("a"), started);
    recorder.record(about("b"), started);
    recorder.record(about("a"), { ...started, reason: "Stopped" });
    recorder.record(about("a"), { ...started, type: "Warning" });
    await settle();
    assert.equal(events().length, 4);
  });

  test("an object without namespace has its events in default; long texts are cut", async () => {
    const { recorder, events } = setUp();
    await using _recorder = recorder;
    const reference = { apiVersion: "v1", kind: "Node", name: "n".repeat(253) };
    recorder.record(reference, { type: "Normal", reason: "R".repeat(300), message: "ü".repeat(2_000) });
    await settle();
    const [event] = events();
    assert.ok(event);
    assert.equal(event.metadata.namespace, "default");
    assert.ok((event.metadata.name?.length ?? 999) <= 253);
    const { message = "", reason = "" } = event;
    assert.ok(Buffer.byteLength(message) <= 1_024 && message.endsWith("ü…"));
    assert.ok(reason !== "" && Buffer.byteLength(reason) <= 128);
  });

  test("many messages of one reason become one event", async () => {
    const { recorder, events } = setUp();
    await using _recorder = recorder;
    for (let index = 0; index < 40; index += 1)
      recorder.record(about("a"), { ...started, message: `attempt ${index} failed` });
    await settle(60);
    assert.equal(events().length, 11);
    const combined = events().find((event) => event.message?.startsWith("(combined from similar events): "));
    assert.ok(combined);
    assert.equal("combined" in combined, false);
  });

  test("an object that causes too much is silenced for a while, others are not", async () => {
    const registry = createRegistry("test");
    const { recorder, events, clock } = setUp({ registry });
    await using _recorder = recorder;
    for (let index = 0; index < 100; index += 1)
      recorder.record(about("noisy"), { ...started, reason: `Reason${index}` });
    recorder.record(about("quiet"), started);
    await settle(200);
    assert.equal(events().filter((event) => event.involvedObject.name === "noisy").length, 25);
    assert.equal(events().filter((event) => event.involvedObject.name === "quiet").length, 1);
    assert.match(await registry.metrics(), /kube_events_total\{result="dropped"\} 75/);
    clock.advance(5 * 60_000);
    recorder.record(about("noisy"), { ...started, reason: "Later" });
    await settle();
    assert.equal(events().filter((event) => event.involvedObject.name === "noisy").length, 26);
  });

  test("all objects together cannot flood the server", async () => {
    const { recorder, events, clock } = setUp();
    await using _recorder = recorder;
    for (let index = 0; index < 1_000; index += 1) recorder.record(about(`o-${index}`), started);
    await settle(300);
    assert.equal(events().length, 200);
    await pass(clock, 2_000, 20);
    assert.ok(events().length >= 295 && events().length <= 301, `${events().length} after two seconds`);
    await pass(clock, 15_000, 20);
    assert.equal(events().length, 1_000);
  });

  test("recording neither waits for the server nor throws, and memory stays bounded", async () => {
    let hang = true;
    const { recorder, events, clock } = setUp({
      before: () => (hang ? Promise.reject(new Fault("unavailable", "away")) : undefined),
      maxPending: 100,
    });
    for (let index = 0; index < 20_000; index += 1) recorder.record(about(`o-${index}`), started);
    recorder.record({} as EventReference, {} as EventInput);
    recorder.record(about("a"), { ...started, message: 5 as unknown as string });
    await settle();
    assert.equal(events().length, 0);
    hang = false;
    await pass(clock, 120_000, 1_000);
    assert.equal(events().length, 100);
    await recorder[Symbol.asyncDispose]();
  });

  test("tallies forget the least recently used", () => {
    const tallies = new EventTallies(new FakeClock());
    for (let index = 0; index < 20_000; index += 1) tallies.count(about(`o-${index}`), started);
    assert.ok(tallies.size <= 3 * 4_096);
    assert.equal(tallies.count(about("o-19999"), started)?.count, 2);
    assert.equal(tallies.count(about("o-1"), started)?.count, 1);
  });

  test("short problem delays an event, a refusal drops it, and neither stops the others", async () => {
    let problem: Fault | undefined = new Fault("unavailable", "away");
    const { recorder, events, clock } = setUp({
      before: ({ key }) => {
        if (key.startsWith("ns/bad")) throw new Fault("forbidden", "namespace is terminating");
        if (problem) throw problem;
      },
    });
    await using _recorder = recorder;
    recorder.record(about("bad"), started);
    recorder.record(about("good"), started);
    await settle();
    assert.equal(events().length, 0);
    problem = undefined;
    await pass(clock, 5_000, 500);
    assert.deepEqual(
      events().map((event) => event.involvedObject.name),
      ["good"],
    );
  });

  test("an event that the server forgot is written anew", async () => {
    const { recorder, events, clock, server } = setUp();
    await using _recorder = recorder;
    recorder.record(about("a"), started);
    await settle();
    const { namespace, name = "" } = events()[0]?.metadata ?? {};
    await server
      .client()
      .delete({ ...things, plural: "events" }, { namespace, name }, { signal: new AbortController().signal });
    assert.equal(events().length, 0);
    recorder.record(about("a"), started);
    await pass(clock, 2_000, 500);
    assert.equal(events().length, 1);
    assert.equal(events()[0]?.count, 2);
    clock.advance(2 * 3_600_000);
    recorder.record(about("a"), started);
    await settle();
    assert.equal(events().length, 2, "after hours it is another event");
  });

  test("the end is bounded even when the server hangs", async () => {
    const { recorder, clock } = setUp({ before: () => new Promise(() => undefined) });
    recorder.record(about("a"), started);
    await settle();
    const ended = recorder[Symbol.asyncDispose]();
    await settle();
    clock.advance(3_000);
    await ended;
    assert.equal(clock.timerCount, 0);
  });
});
