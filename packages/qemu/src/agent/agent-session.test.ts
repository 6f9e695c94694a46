/** The host's side of the agent protocol, against a guest that loses, repeats and forgets. */
import assert from "node:assert/strict";
import { duplexPair, type Duplex } from "node:stream";
import { test } from "node:test";
import { isFault } from "@cocoon/core";
import { eventually } from "@cocoon/testkit";
import { initialCreditBytes, maxDataBytes } from "./agent-protocol.ts";
import { AgentSession } from "./agent-session.ts";

interface Said {
  readonly s: string;
  readonly t: string;
  readonly id?: number;
  readonly x?: number;
  readonly data?: string;
  readonly bytes?: number;
  readonly stream?: string;
}

/** The guest's end of the channel: collects what the host says and answers as the test wants. */
class FakeAgent {
  readonly said: Said[] = [];
  readonly #channel: Duplex;
  readonly #answer: (message: Said, agent: FakeAgent) => void;
  boot = "boot-1";

  constructor(channel: Duplex, answer: (message: Said, agent: FakeAgent) => void) {
    this.#channel = channel;
    this.#answer = answer;
    let rest = "";
    channel.setEncoding("utf8").on("data", (text: string) => {
      const lines = `${rest}${text}`.split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines.filter((each) => each !== "")) this.#take(JSON.parse(line) as Said);
    });
  }

  #take(message: Said): void {
    this.said.push(message);
    this.#answer(message, this);
  }

  say(to: Said, message: Record<string, unknown>): void {
    this.#channel.write(`${JSON.stringify({ s: to.s, ...message })}\n`);
  }

  pong(to: Said): void {
    this.say(to, { t: "pong", re: to.id, agent: "test", boot: this.boot, epoch: "" });
  }

  raw(text: string): void {
    this.#channel.write(text);
  }

  count(kind: string): number {
    return this.said.filter((message) => message.t === kind).length;
  }
}

function openFakeAgent(answer: (message: Said, agent: FakeAgent) => void): {
  near: Duplex;
  agent: FakeAgent;
} {
  const [near, far] = duplexPair();
  return { near, agent: new FakeAgent(far, answer) };
}

test("a ping is repeated until it is answered, and noise is not taken for an answer", async (t) => {
  const { near, agent } = openFakeAgent((message, guest) => {
    if (guest.count("ping") < 3)
      return guest.raw('{"s":"other","t":"pong","re":1}\nhalf a li\n\u0000{"t":\n');
    guest.pong(message);
  });
  const { session, pong } = await AgentSession.open(near, { signal: t.signal });
  assert.equal(pong.agent, "test");
  assert.ok(agent.count("ping") >= 3);
  await session[Symbol.asyncDispose]();
});

test("a guest that never answers is a timeout, and the channel is given up", async () => {
  const { near } = openFakeAgent(() => undefined);
  await assert.rejects(AgentSession.open(near, { signal: AbortSignal.timeout(100) }), (error) =>
    isFault(error, "timeout"),
  );
  assert.ok(near.destroyed);
});

test("a request that was lost is sent again under its number", async (t) => {
  const { near, agent } = openFakeAgent((message, guest) => {
    if (message.t === "ping") guest.pong(message);
    if (message.t === "clock" && guest.count("clock") === 2)
      guest.say(message, { t: "done", re: message.id });
  });
  const { session } = await AgentSession.open(near, { signal: t.signal });
  await session.request({ t: "clock", wallClockMs: 5 }, { signal: t.signal });
  const clocks = agent.said.filter((message) => message.t === "clock");
  assert.equal(new Set(clocks.map((message) => message.id)).size, 1);
  await session[Symbol.asyncDispose]();
});

test("an agent that was started anew learns the session by a ping", async (t) => {
  let knows = true;
  const { near, agent } = openFakeAgent((message, guest) => {
    if (message.t === "ping") {
      knows = true;
      guest.pong(message);
    }
    if (message.t === "stats" && knows)
      guest.say(message, {
        t: "stats",
        re: message.id,
        memoryTotalBytes: 1,
        memoryAvailableBytes: 1,
        receivedBytes: 0,
        sentBytes: 0,
      });
  });
  const { session } = await AgentSession.open(near, { signal: t.signal });
  knows = false;
  agent.boot = "boot-2";
  const answer = await session.request({ t: "stats" }, { signal: t.signal });
  assert.equal(answer.t, "stats");
  await session[Symbol.asyncDispose]();
});

test("what the guest refuses has the code that fits", async (t) => {
  const { near } = openFakeAgent((message, guest) => {
    if (message.t === "ping") guest.pong(message);
    else if (message.id !== undefined)
      guest.say(message, { t: "error", re: message.id, code: "notFound", message: "no such program" });
  });
  const { session } = await AgentSession.open(near, { signal: t.signal });
  await assert.rejects(session.exec({ argv: ["x"] }, { signal: t.signal }), (error) =>
    isFault(error, "notFound"),
  );
  await session[Symbol.asyncDispose]();
});

test("a program's streams have credits: nothing is sent beyond what the other side takes", async (t) => {
  const { near, agent } = openFakeAgent((message, guest) => {
    if (message.t === "ping") guest.pong(message);
    if (message.t === "exec") guest.say(message, { t: "started", re: message.id, pid: 9 });
  });
  const { session } = await AgentSession.open(near, { signal: t.signal });
  const program = await session.exec({ argv: ["cat"], stdin: true }, { signal: t.signal });
  const exec = agent.said.find((message) => message.t === "exec");
  assert.ok(exec);
  program.stdin.write(Buffer.alloc(initialCreditBytes + 5000, 1));
  const sent = () =>
    agent.said
      .filter((message) => message.t === "stdin")
      .reduce((sum, message) => sum + Buffer.from(message.data ?? "", "base64").length, 0);
  await eventually(() => assert.equal(sent(), initialCreditBytes));
  agent.say(exec, { t: "credit", x: exec.id, bytes: 5000 });
  await eventually(() => assert.equal(sent(), initialCreditBytes + 5000));
  assert.ok(agent.said.every((message) => Buffer.from(message.data ?? "", "base64").length <= maxDataBytes));
  program.stdin.end();
  await eventually(() => assert.equal(agent.count("eof"), 1));

  agent.say(exec, { t: "out", x: exec.id, stream: "stdout", data: Buffer.from("hello").toString("base64") });
  assert.equal(String(await new Promise((resolve) => program.stdout.once("data", resolve))), "hello");
  await eventually(() =>
    assert.deepEqual(
      agent.said
        .filter((message) => message.t === "credit")
        .map((message) => [message.stream, message.bytes]),
      [["stdout", 5]],
    ),
  );
  agent.say(exec, { t: "end", x: exec.id, stream: "stdout" });
  agent.say(exec, { t: "exit", x: exec.id, code: 3 });
  assert.deepEqual(await program.exited, { code: 3 });
  await session[Symbol.asyncDispose]();
});

test("programs are lost, and say so, when the guest restarts or the channel breaks", async (t) => {
  const { near, agent } = openFakeAgent((message, guest) => {
    if (message.t === "ping") guest.pong(message);
    if (message.t === "exec") guest.say(message, { t: "started", re: message.id, pid: 9 });
  });
  const { session } = await AgentSession.open(near, { signal: t.signal });
  const first = await session.exec({ argv: ["sleep"] }, { signal: t.signal });
  const exec = agent.said.find((message) => message.t === "exec");
  assert.ok(exec);
  agent.say(exec, { t: "pong", re: 9999, agent: "test", boot: "boot-2" });
  await assert.rejects(first.exited, /started again/);
  const second = await session.exec({ argv: ["sleep"] }, { signal: t.signal });
  near.destroy();
  await assert.rejects(second.exited, (error) => isFault(error, "unavailable"));
  await session.closed;
});
