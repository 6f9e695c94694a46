import assert from "node:assert/strict";
import { test } from "node:test";
import { Backoff, Fault } from "@cocoon/core";
import { configMaps } from "../builtin.ts";
import type { ConfigMap } from "../builtin-objects.ts";
import {
  bookmark,
  frame,
  list,
  fakeConnection,
  silence,
  testObject,
  type Answer,
  type FakeConnection,
} from "../testing/fake-connection.ts";
import { watch } from "./watch.ts";
import type { WatchEvent, WatchOptions } from "./watch-options.ts";

const quick = () => ({ backoff: new Backoff({ baseMs: 1, maxMs: 2 }), unseenMs: 60_000 });

function short(event: WatchEvent<ConfigMap>): string {
  if (event.kind === "relisting") return event.kind;
  if (event.kind === "synced") return `synced ${event.version}`;
  if (event.kind === "malformed") return `malformed ${event.key}${event.gone ? " gone" : ""}`;
  return `${event.kind} ${event.object.metadata.name} ${event.object.metadata.resourceVersion}`;
}

/** Watches until `count` events came. */
async function collect(
  script: FakeConnection,
  count: number,
  options: Partial<WatchOptions<ConfigMap>> = {},
): Promise<string[]> {
  const stop = new AbortController();
  const seen: string[] = [];
  const tuning = { ...quick(), ...options.tuning };
  for await (const event of watch(script.connection, configMaps, {
    ...options,
    tuning,
    signal: stop.signal,
  })) {
    seen.push(short(event));
    if (seen.length >= count) stop.abort();
  }
  return seen;
}

const whole: Answer = () => [list("10", [testObject("a", "3"), testObject("b", "4")])];
const hang: Answer = (_asked, signal) => silence(signal);
const then = (...parts: readonly string[]): Answer =>
  async function* (_asked, signal) {
    yield* parts;
    yield* silence(signal);
  };

test("a list, then changes from its version on, on one connection", async () => {
  const changes = [frame("ADDED", testObject("c", "11")), frame("MODIFIED", testObject("a", "12"))];
  const script = fakeConnection(whole, then(...changes, frame("DELETED", testObject("b", "13"))));
  assert.deepEqual(await collect(script, 7, { namespace: "n", labelSelector: "x=y" }), [
    "relisting",
    "listed a 3",
    "listed b 4",
    "synced 10",
    "applied c 11",
    "applied a 12",
    "deleted b 13",
  ]);
  const [listing, watching] = script.asked;
  assert.equal(listing?.path, "/api/v1/namespaces/n/configmaps");
  assert.equal(listing?.query.get("labelSelector"), "x=y");
  assert.equal(watching?.query.get("watch"), "true");
  assert.equal(watching?.query.get("resourceVersion"), "10");
  assert.equal(watching?.query.get("allowWatchBookmarks"), "true");
  assert.equal(watching?.query.get("labelSelector"), "x=y");
  const seconds = Number(watching?.query.get("timeoutSeconds"));
  assert.ok(seconds >= 300 && seconds <= 600, `${seconds}`);
});

test("pages are one list, with the next page requested before the first is worked on", async () => {
  const page =
    (name: string, token?: string): Answer =>
    () => [list("10", [testObject(name, "3")], token)];
  const script = fakeConnection(page("a", "t1"), page("b", "t2"), page("c"), hang);
  assert.deepEqual(await collect(script, 5), [
    "relisting",
    "listed a 3",
    "listed b 3",
    "listed c 3",
    "synced 10",
  ]);
  assert.deepEqual(
    script.asked.slice(0, 3).map(({ query }) => query.get("continue")),
    [null, "t1", "t2"],
  );
});

test("a list whose items come first, as custom resources have it, works page by page too", async () => {
  const page =
    (name: string, token?: string): Answer =>
    () => [
      JSON.stringify({
        apiVersion: "v1",
        items: [testObject(name, "3")],
        kind: "XList",
        metadata: { ...(token && { continue: token }), resourceVersion: "10" },
      }),
    ];
  const script = fakeConnection(page("a", "t1"), page("b"), hang);
  assert.deepEqual(await collect(script, 4), ["relisting", "listed a 3", "listed b 3", "synced 10"]);
});

test("a connection that ends, breaks or is cut in the middle of an event goes on where it stood", async () => {
  const cutInEvent: Answer = async function* () {
    yield frame("MODIFIED", testObject("a", "11"));
    yield frame("MODIFIED", testObject("b", "12")).slice(0, 40);
    await Promise.resolve();
    throw new Fault("unavailable", "cut");
  };
  const halfAtEnd: Answer = () => [frame("MODIFIED", testObject("b", "12")).slice(0, 40)];
  const script = fakeConnection(
    whole,
    cutInEvent,
    halfAtEnd,
    () => [bookmark("15")],
    then(frame("MODIFIED", testObject("b", "16"))),
  );
  const seen = await collect(script, 6);
  assert.deepEqual(seen.slice(4), ["applied a 11", "applied b 16"]);
  assert.deepEqual(
    script.asked.slice(1).map(({ query }) => query.get("resourceVersion")),
    ["10", "11", "11", "15"],
  );
});

test("an event may come in pieces, cut anywhere, even inside a character", async () => {
  const bytes = Buffer.from(frame("ADDED", testObject("ä", "11", { data: { text: "grüße 🌍" } })));
  const inPieces: Answer = async function* (_asked, signal) {
    for (const byte of bytes) yield Buffer.from([byte]);
    yield* silence(signal);
  };
  const stop = new AbortController();
  const { connection } = fakeConnection(whole, inPieces);
  for await (const event of watch(connection, configMaps, { signal: stop.signal })) {
    if (event.kind !== "applied") continue;
    assert.equal(event.object.metadata.name, "ä");
    assert.equal(event.object.data?.["text"], "grüße 🌍");
    stop.abort();
  }
});

for (const where of ["in the stream", "as the answer"]) {
  test(`lost history (410, ${where}) means everything again, as a streaming list`, async () => {
    const gone: Answer = () => {
      if (where === "as the answer") throw new Fault("gone", "too old");
      return [
        frame("MODIFIED", testObject("a", "11")),
        frame("ERROR", { kind: "Status", code: 410, reason: "Expired" }),
      ];
    };
    const streamed = [
      frame("ADDED", testObject("a", "20")),
      frame("ADDED", testObject("d", "5")),
      bookmark("21", true),
    ];
    const script = fakeConnection(whole, gone, then(...streamed, frame("DELETED", testObject("d", "22"))));
    const seen = await collect(script, where === "as the answer" ? 9 : 10);
    assert.deepEqual(seen.slice(-5), ["relisting", "listed a 20", "listed d 5", "synced 21", "deleted d 22"]);
    const again = script.asked[2]?.query;
    assert.equal(again?.get("sendInitialEvents"), "true");
    assert.equal(again?.get("resourceVersionMatch"), "NotOlderThan");
    assert.equal(script.asked.length, 3, "the streaming list goes over into the watch");
  });
}

test("a streaming list that is cut starts anew; what it takes back is reported", async () => {
  const half: Answer = () => [frame("ADDED", testObject("a", "3"))];
  const full = then(
    frame("ADDED", testObject("a", "3")),
    frame("ADDED", testObject("b", "4")),
    frame("DELETED", testObject("a", "5")),
    bookmark("6", true),
  );
  const script = fakeConnection(half, full);
  assert.deepEqual(await collect(script, 7, { tuning: { firstList: "stream" } }), [
    "relisting",
    "listed a 3",
    "relisting",
    "listed a 3",
    "listed b 4",
    "deleted a 5",
    "synced 6",
  ]);
});

test("a server without streaming lists is sent requests for pages, at once and from then on", async () => {
  const refuse: Answer = ({ query }) => {
    if (query.has("sendInitialEvents")) throw new Fault("invalid", "sendInitialEvents is forbidden");
    return [list("10", [testObject("a", "3")])];
  };
  const gone: Answer = () => {
    throw new Fault("gone", "too old");
  };
  const backoff = new Backoff({ baseMs: 60_000, maxMs: 60_000 });
  const script = fakeConnection(refuse, refuse, hang);
  const seen = await collect(script, 4, { tuning: { firstList: "stream", backoff } });
  assert.deepEqual(seen, ["relisting", "relisting", "listed a 3", "synced 10"]);
  const later = fakeConnection(refuse, refuse, gone, refuse, hang);
  await collect(later, 7, { tuning: { firstList: "stream" } });
  assert.equal(later.asked[3]?.query.has("sendInitialEvents"), false);
});

test("a server that is merely away does not lose its streaming lists", async () => {
  const down: Answer = () => {
    throw new Fault("unavailable", "connection refused");
  };
  const script = fakeConnection(down, down, down, down, down, then(bookmark("6", true)));
  const seen = await collect(script, 7, { tuning: { firstList: "stream" } });
  assert.equal(seen.at(-1), "synced 6");
});

test("a server that ignores the request for a streaming list is found out", async () => {
  const ignores: Answer = ({ query }) => (query.has("watch") ? [] : [list("10", [])]);
  const script = fakeConnection(ignores);
  const seen = await collect(script, 5, { tuning: { firstList: "stream" } });
  assert.deepEqual(seen.slice(-2), ["relisting", "synced 10"]);
});

test("a malformed object is reported and passed over, in lists and in events", async () => {
  const read = (object: { readonly metadata: { readonly name?: string } }) => {
    if (object.metadata.name === "bad") throw new Error("unreadable");
    return object as ConfigMap;
  };
  const items = [testObject("a", "3"), testObject("bad", "4"), { metadata: {} }, null, 7];
  const script = fakeConnection(
    () => [list("10", items)],
    then(
      "this is not JSON\n",
      '{"type":"ADDED"}\n',
      "null\n",
      '{"type":"SURPRISE","object":{}}\n',
      frame("MODIFIED", testObject("bad", "11")),
      frame("DELETED", testObject("bad", "12")),
      frame("BOOKMARK", {}),
      frame("ADDED", testObject("c", "13")),
    ),
  );
  assert.deepEqual(await collect(script, 15, { read }), [
    "relisting",
    "listed a 3",
    "malformed n/bad",
    "malformed ?",
    "malformed ?",
    "malformed ?",
    "synced 10",
    "malformed ?",
    "malformed ?",
    "malformed ?",
    "malformed ?",
    "malformed n/bad",
    "malformed n/bad gone",
    "malformed ?",
    "applied c 13",
  ]);
});

test("an event that is too long is passed over without being kept in memory", async () => {
  const long = frame("ADDED", testObject("long", "11", { data: { x: "y".repeat(5000) } }));
  const script = fakeConnection(whole, then(long, frame("ADDED", testObject("c", "12"))));
  const seen = await collect(script, 6, { tuning: { maxObjectBytes: 1000 } });
  assert.deepEqual(seen.slice(4), ["malformed ?", "applied c 12"]);
});

const restored = then(frame("ADDED", testObject("a", "3")), bookmark("12", true));

test("a silent connection is cut and everything listed again, for its server may have been restored", async () => {
  const script = fakeConnection(whole, then(bookmark("11")), restored);
  const seen = await collect(script, 7, { tuning: { idleTimeoutMs: 30 } });
  assert.deepEqual(seen.slice(4), ["relisting", "listed a 3", "synced 12"]);
  assert.equal(script.asked[2]?.query.get("sendInitialEvents"), "true");
});

for (const end of ["ends", "breaks"]) {
  test(`a process that stood still lists again when its connection ${end}`, async () => {
    const paused: Answer = async function* () {
      yield frame("MODIFIED", testObject("a", "11"));
      await new Promise(setImmediate);
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 400); // as SIGSTOP does
      if (end === "breaks") throw new Fault("unavailable", "connection reset");
    };
    const script = fakeConnection(whole, paused, restored);
    const seen = await collect(script, 8, { tuning: { unseenMs: 200 } });
    assert.deepEqual(seen.slice(4), ["applied a 11", "relisting", "listed a 3", "synced 12"]);
  });
}

test("a server that sends its clients away for long is listed again", async () => {
  const ends: Answer = () => [frame("MODIFIED", testObject("a", "11"))];
  const busy: Answer = () => {
    throw new Fault("tooManyRequests", "busy", { retryAfterMs: 300 });
  };
  const script = fakeConnection(whole, ends, busy, restored);
  const seen = await collect(script, 8, { tuning: { unseenMs: 200 } });
  assert.deepEqual(seen.slice(4), ["applied a 11", "relisting", "listed a 3", "synced 12"]);
});

test("a process that stood still while its connection stayed lists nothing again", async () => {
  const paused: Answer = async function* (_asked, signal) {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 400);
    yield frame("MODIFIED", testObject("a", "11"));
    yield* silence(signal);
  };
  const script = fakeConnection(whole, paused);
  assert.equal((await collect(script, 5, { tuning: { unseenMs: 200 } })).at(-1), "applied a 11");
  assert.equal(script.asked.length, 2);
});

test("it never gives up, and waits longer from failure to failure", async () => {
  const waits: number[] = [];
  class Recording extends Backoff {
    override nextMs(): number {
      waits.push(Math.round(super.nextMs()));
      return 0;
    }
  }
  const down: Answer = () => {
    throw new Fault("unavailable", "connection refused");
  };
  const backoff = new Recording({ baseMs: 100, maxMs: 1000, jitter: 0 });
  const script = fakeConnection(...Array.from({ length: 8 }, () => down), whole, hang);
  const seen = await collect(script, 12, { tuning: { backoff } });
  assert.equal(seen.at(-1), "synced 10");
  assert.deepEqual(waits, [100, 200, 400, 800, 1000, 1000, 1000, 1000]);
  assert.equal(backoff.failures, 0, "success ends the waiting");
});

test("a Retry-After of the server is waited for", async () => {
  const busy: Answer = () => {
    throw new Fault("tooManyRequests", "busy", { retryAfterMs: 200 });
  };
  const script = fakeConnection(busy, whole, hang);
  const began = performance.now();
  await collect(script, 5);
  assert.ok(performance.now() - began >= 190);
});

test("watches that end at once are not opened in a tight loop", async () => {
  let failures = 0;
  class Counting extends Backoff {
    override nextMs(): number {
      failures += 1;
      return 1;
    }
  }
  const backoff = new Counting({ baseMs: 1, maxMs: 1 });
  const nothing: Answer = () => [];
  const script = fakeConnection(
    whole,
    nothing,
    nothing,
    nothing,
    then(frame("ADDED", testObject("c", "12"))),
  );
  await collect(script, 5, { tuning: { backoff } });
  assert.equal(failures, 3);
});

test("storage that was restored from an older copy is listed again", async () => {
  const behind: Answer = () => {
    throw new Fault("timeout", "too large", {
      causes: [{ field: "", message: "", reason: "ResourceVersionTooLarge" }],
    });
  };
  const slow: Answer = () => {
    throw new Fault("timeout", "slow");
  };
  const script = fakeConnection(
    whole,
    slow,
    behind,
    then(frame("ADDED", testObject("a", "2")), bookmark("3", true)),
  );
  const seen = await collect(script, 7);
  assert.deepEqual(seen.slice(4), ["relisting", "listed a 2", "synced 3"]);
  assert.equal(script.asked[2]?.query.get("resourceVersion"), "10", "slowness alone loses nothing");
});

test("what the consumer throws ends the watch and surfaces; the connection is let go", async () => {
  let closed = false;
  const open: Answer = async function* (_asked, signal) {
    try {
      yield frame("ADDED", testObject("c", "11"));
      yield* silence(signal);
    } finally {
      closed = true;
    }
  };
  const { connection } = fakeConnection(whole, open);
  await assert.rejects(async () => {
    for await (const event of watch(connection, configMaps, { signal: new AbortController().signal }))
      if (event.kind === "applied") throw new Error("my handler is broken");
  }, /my handler is broken/);
  assert.equal(closed, true);
});

test("aborting ends it without an error, whatever it is doing", async () => {
  const stop = new AbortController();
  const { connection } = fakeConnection(whole, hang);
  const seen: string[] = [];
  setTimeout(() => stop.abort(), 50);
  for await (const event of watch(connection, configMaps, { signal: stop.signal })) seen.push(event.kind);
  assert.deepEqual(seen, ["relisting", "listed", "listed", "synced"]);
  const waiting = new AbortController();
  const down = fakeConnection(() => {
    throw new Fault("unavailable", "down");
  });
  setTimeout(() => waiting.abort(), 50);
  const tuning = { backoff: new Backoff({ baseMs: 60_000, maxMs: 60_000 }) };
  for await (const event of watch(down.connection, configMaps, { signal: waiting.signal, tuning }))
    assert.equal(event.kind, "relisting");
});

test("a server whose versions went backwards is listed again instead of watched in silence", async () => {
  const script = fakeConnection(
    whole,
    () => {
      script.serverVersion = "7"; // restored from an older copy while the watch was open
      return [frame("MODIFIED", testObject("a", "11"))];
    },
    then(frame("ADDED", testObject("a", "3")), bookmark("7", true)),
  );
  assert.deepEqual((await collect(script, 8)).slice(4), [
    "applied a 11",
    "relisting",
    "listed a 3",
    "synced 7",
  ]);
});

test("a server that was away is listed again, for its versions may have caught up with ours", async () => {
  const script = fakeConnection(
    whole,
    () => [frame("MODIFIED", testObject("a", "11"))],
    () => {
      script.serverVersion = "12"; // restored from an older copy, and written to since
      throw new Fault("unavailable", "connection refused");
    },
    then(frame("ADDED", testObject("a", "3")), bookmark("12", true)),
  );
  assert.deepEqual((await collect(script, 8)).slice(4), [
    "applied a 11",
    "relisting",
    "listed a 3",
    "synced 12",
  ]);
});
