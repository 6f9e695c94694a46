import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { AnsweringThread, type Numbered } from "./answering-thread.ts";

interface Question extends Numbered {
  readonly text: string;
}
interface Answer extends Numbered {
  readonly text: string;
}

/** Answers the second of two questions first; ends, fails or stays silent on request. */
const program = new URL(
  `data:text/javascript,${encodeURIComponent(`
    import { parentPort } from "node:worker_threads";
    let held;
    parentPort.on("message", (question) => {
      if (question.text === "end") process.exit(0);
      if (question.text === "fail") throw new Error("broken");
      if (question.text === "stay silent") return;
      if (question.text === "hold") { held = question; return; }
      parentPort.postMessage(question);
      if (held) parentPort.postMessage(held);
      held = undefined;
    });
  `)}`,
);

function start() {
  let lost = 0;
  const thread = new AnsweringThread<Question, Answer>(program, { name: "test", onLost: () => (lost += 1) });
  return { thread, lost: () => lost, [Symbol.asyncDispose]: () => thread.end() };
}

test("every caller gets its own answer, in whatever order they come", async () => {
  await using world = start();
  const { thread } = world;
  const order: string[] = [];
  const ask = async (text: string) => {
    order.push((await thread.ask({ text })).text);
  };
  const both = Promise.all([ask("hold"), ask("second")]);
  assert.equal(thread.waiting, 2);
  await both;
  assert.deepEqual([order, thread.waiting], [["second", "hold"], 0]);
});

for (const [how, message] of [
  ["end", /a thread \(test\) ended/],
  ["fail", /a thread \(test\) failed: broken/],
] as const)
  test(`a thread that is lost (${how}) fails the pending and the later requests`, async () => {
    await using world = start();
    const { thread, lost } = world;
    const silent = thread.ask({ text: "stay silent" });
    const last = thread.ask({ text: how });
    await assert.rejects(silent, message);
    await assert.rejects(last, message);
    assert.deepEqual([thread.isGone, thread.waiting, lost()], [true, 0, 1]);
    await assert.rejects(thread.ask({ text: "too late" }), message);
    await thread.end();
    assert.equal(lost(), 1);
  });

test("a thread that was ended from here is not lost, and rejects all who wait", async () => {
  await using world = start();
  const { thread, lost } = world;
  const waiting = thread.ask({ text: "stay silent" });
  const ended = Promise.all([thread.end(), thread.end()]);
  await assert.rejects(waiting, /ended/);
  await ended;
  await setImmediate();
  assert.deepEqual([thread.isGone, lost()], [true, 0]);
});

test("a question that cannot be sent is not waited for", async () => {
  await using world = start();
  const { thread } = world;
  await assert.rejects(
    thread.ask({ text: (() => "no message") as unknown as string }),
    /could not be cloned/,
  );
  assert.equal(thread.waiting, 0);
  assert.equal((await thread.ask({ text: "go on" })).text, "go on");
});
