/** Requests to a guest that refuses connections, answers, or is cut off. */
import assert from "node:assert/strict";
import { duplexPair } from "node:stream";
import { test } from "node:test";
import { isFault } from "@cocoon/core";
import { Guest } from "./guest.ts";
import { encodeFrame, GuestError } from "./protocol.ts";

type Answer = "cut" | readonly Buffer[];

/** Answers each request as the function says; collects what was asked. */
function openGuest(answer: (op: string, prepared: number) => Answer) {
  const asked: string[] = [];
  let prepared = 0;
  const guest = new Guest(
    {
      connect: async () => {
        const [near, far] = duplexPair();
        far.once("data", (line: Buffer) => {
          const { op } = JSON.parse(line.toString()) as { op: string };
          asked.push(op);
          const frames = answer(op, prepared);
          if (frames !== "cut") for (const frame of frames) far.write(frame);
          far.end();
        });
        return { stream: near, release: () => undefined };
      },
      prepare: async () => {
        prepared += 1;
      },
    },
    "token",
  );
  return { guest, asked, prepared: () => prepared };
}

const done = encodeFrame("Z", Buffer.alloc(0));
const record = encodeFrame("J", Buffer.from('{"pid":5}'));

test("a guest that serves nothing yet is prepared, and the request is sent again", async (t) => {
  const world = openGuest((_op, prepared) => (prepared === 0 ? "cut" : [record, done]));
  assert.deepEqual(await world.guest.call({ op: "start" }, { signal: t.signal }), [{ pid: 5 }]);
  assert.deepEqual([world.asked, world.prepared()], [["start", "ping", "ping", "start"], 1]);
});

test("a guest that serves a moment after it was prepared gets the request once", async (t) => {
  let refusals = 2;
  const world = openGuest((op, prepared) => {
    if (prepared === 0) return "cut";
    return op === "ping" && (refusals -= 1) >= 0 ? "cut" : [record, done];
  });
  await world.guest.call({ op: "start" }, t);
  assert.deepEqual(world.asked, ["start", "ping", "ping", "ping", "ping", "start"]);
});

test("a process is not started twice when it is not known whether it was", async (t) => {
  const world = openGuest((op) => (op === "ping" ? [done] : "cut"));
  await assert.rejects(world.guest.call({ op: "start" }, { signal: t.signal }), (error) =>
    isFault(error, "unavailable"),
  );
  assert.deepEqual(world.asked, ["start", "ping"]);
  await assert.rejects(world.guest.call({ op: "list" }, { signal: t.signal }), (error) =>
    isFault(error, "unavailable"),
  );
  assert.deepEqual(world.asked.slice(2), ["list", "ping", "list"]);
});

test("a refusal of the guest, and an answer that is cut, are told apart", async (t) => {
  const refusal = encodeFrame("X", Buffer.from('{"code":"not_found","message":"no"}'));
  const refusing = openGuest(() => [refusal]);
  await assert.rejects(
    refusing.guest.call({ op: "stat" }, { signal: t.signal }),
    (error) => error instanceof GuestError && error.code === "not_found",
  );
  const cut = openGuest(() => [record]);
  await assert.rejects(cut.guest.call({ op: "list" }, { signal: t.signal }), (error) =>
    isFault(error, "unavailable"),
  );
  const noise = openGuest(() => [Buffer.from("HTTP/1.1 400 Bad Request\r\n")]);
  await assert.rejects(noise.guest.call({ op: "list" }, { signal: t.signal }), (error) =>
    isFault(error, "unavailable"),
  );
});

test("a body that cannot be read to its end is the client's fault, not a lost guest", async (t) => {
  const silent = new Guest(
    {
      connect: async () => ({ stream: duplexPair()[0], release: () => undefined }),
      prepare: async () => undefined,
    },
    "token",
  );
  async function* broken(): AsyncGenerator<Buffer> {
    yield Buffer.from("begin");
    throw new RangeError("too large");
  }
  await assert.rejects(silent.call({ op: "write" }, { signal: t.signal }, broken()), RangeError);
});
