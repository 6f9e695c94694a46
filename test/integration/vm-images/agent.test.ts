/** The agent's conversation, with the real program on this host over a socket: nothing here changes the host. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { chmod, copyFile } from "node:fs/promises";
import { createServer, type Socket } from "node:net";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { after, before, test } from "node:test";
import { Fault } from "@cocoon/core";
import {
  count,
  eventually,
  seededRandom,
  temporaryDirectory,
  testSeed,
  type TemporaryDirectory,
} from "@cocoon/testkit";
import { AgentSession } from "../../../packages/qemu/src/agent/agent-session.ts";
import { ensureGuestProgram } from "../../../packages/images/src/guest/guest-program.ts";
import { BlobStore } from "../../../packages/images/src/blob-store.ts";
import { cacheDirectory, runIn } from "./boot-guest.ts";

const signal = AbortSignal.timeout(300_000);
let home: TemporaryDirectory;
let program: string;

before(async () => {
  const built = await ensureGuestProgram({ store: new BlobStore(cacheDirectory()), signal });
  home = await temporaryDirectory();
  program = join(home.path, "cocoon-guest");
  await copyFile(built, program);
  await chmod(program, 0o755); // blobs are not executable
});

after(() => home[Symbol.asyncDispose]());

interface RunningAgent extends AsyncDisposable {
  readonly channel: Socket;
}

async function startAgent(): Promise<RunningAgent> {
  const directory = await temporaryDirectory();
  const path = join(directory.path, "agent");
  const server = createServer().listen(path);
  await once(server, "listening");
  const child = spawn(program, ["agent", "--connect", path], { stdio: ["ignore", "inherit", "inherit"] });
  await once(child, "spawn");
  const [channel] = (await once(server, "connection")) as [Socket];
  const exited = once(child, "exit");
  return {
    channel,
    [Symbol.asyncDispose]: async () => {
      channel.destroy();
      server.close();
      child.kill("SIGKILL");
      await exited;
      await directory[Symbol.asyncDispose]();
    },
  };
}

/** Raw lines, for what a well-behaved host never says. */
class RawHost {
  readonly #channel: Socket;
  readonly received: Record<string, unknown>[] = [];
  #rest = "";

  constructor(channel: Socket) {
    this.#channel = channel;
    channel.setEncoding("utf8").on("data", (text: string) => {
      const lines = (this.#rest + text).split("\n");
      this.#rest = lines.pop() ?? "";
      for (const line of lines) if (line) this.received.push(JSON.parse(line) as Record<string, unknown>);
    });
  }

  say(message: object | string): void {
    this.#channel.write(`${typeof message === "string" ? message : JSON.stringify(message)}\n`);
  }

  async answerTo(id: number, s = "S"): Promise<Record<string, unknown>> {
    return eventually(
      () => this.received.find((each) => each["re"] === id && each["s"] === s) ?? assert.fail("no answer"),
    );
  }
}

const plainRequest = {
  s: "S",
  t: "exec",
  env: [],
  cwd: "",
  user: "",
  tty: false,
  rows: 0,
  columns: 0,
  stdin: false,
};

function exec(id: number, argv: readonly string[], more: object = {}): object {
  return { ...plainRequest, id, argv, ...more };
}

test("programs have input, output, errors, an environment and an exit code", async () => {
  await using agent = await startAgent();
  const { session, pong } = await AgentSession.open(agent.channel, { signal });
  assert.match(pong.boot, /^[0-9a-f]{32}$/);
  const process = await session.exec(
    {
      argv: ["sh", "-c", 'cat; echo "$NAME in $PWD" >&2; exit 7'],
      env: { NAME: "värde" },
      cwd: "/usr",
      stdin: true,
    },
    { signal },
  );
  process.stdin.end("some input");
  const [stdout, stderr, exit] = await Promise.all([
    buffer(process.stdout),
    buffer(process.stderr),
    process.exited,
  ]);
  assert.equal(stdout.toString(), "some input");
  assert.equal(stderr.toString(), "värde in /usr\n");
  assert.equal(exit.code, 7);
  await session[Symbol.asyncDispose]();
});

test("megabytes go both ways unharmed, at the reader's pace", async () => {
  await using agent = await startAgent();
  const { session } = await AgentSession.open(agent.channel, { signal });
  const random = seededRandom(testSeed());
  const sent = Buffer.from(
    Array.from({ length: count({ small: 3_000_000, full: 30_000_000 }) }, () => random() * 256),
  );
  const process = await session.exec({ argv: ["cat"], stdin: true }, { signal });
  process.stdin.end(sent);
  assert.ok((await buffer(process.stdout)).equals(sent));
  assert.equal((await process.exited).code, 0);
  await session[Symbol.asyncDispose]();
});

test("a reader that stops stops its own program and no other", async () => {
  await using agent = await startAgent();
  const { session } = await AgentSession.open(agent.channel, { signal });
  await using flood = await session.exec(
    { argv: ["sh", "-c", "while :; do echo xxxxxxxxxxxxxxxx; done"] },
    { signal },
  );
  flood.stdout.pause();
  for (let round = 0; round < 5; round += 1) {
    assert.equal((await runIn(session, { argv: ["echo", String(round)] }, signal)).stdout, `${round}\n`);
  }
  await session[Symbol.asyncDispose]();
});

test("a terminal has a size, a controlling process, echo and control characters", async () => {
  await using agent = await startAgent();
  const { session } = await AgentSession.open(agent.channel, { signal });
  // A shell's read ends when a signal comes that it has a trap for.
  const script =
    "trap 'stty size' WINCH; stty size; until read line; do sleep 0.05; done; echo got $line; sleep 100";
  const process = await session.exec(
    { argv: ["sh", "-c", script], tty: { rows: 30, columns: 100 }, stdin: true },
    { signal },
  );
  let seen = "";
  process.stdout.on("data", (chunk: Buffer) => (seen += chunk.toString()));
  await eventually(() => assert.match(seen, /30 100/));
  process.resize({ rows: 5, columns: 20 });
  await eventually(() => assert.match(seen, /5 20/));
  process.stdin.write("hello\n");
  await eventually(() => assert.match(seen, /got hello/));
  process.stdin.write("\u0003");
  const exit = await process.exited;
  assert.equal(exit.signal, 2, "interrupted by its terminal");
  await session[Symbol.asyncDispose]();
});

test("signals reach the whole program, and the exit says which", async () => {
  await using agent = await startAgent();
  const { session } = await AgentSession.open(agent.channel, { signal });
  const process = await session.exec({ argv: ["sh", "-c", "sleep 1000 & wait"] }, { signal });
  process.signal("TERM");
  assert.deepEqual(await process.exited, { code: 143, signal: 15 });
  await session[Symbol.asyncDispose]();
});

test("a child that keeps the stream is not waited for", async () => {
  await using agent = await startAgent();
  const { session } = await AgentSession.open(agent.channel, { signal });
  const finished = await runIn(session, { argv: ["sh", "-c", "sleep 20 & echo done"] }, signal);
  assert.equal(finished.stdout, "done\n");
  await session[Symbol.asyncDispose]();
});

test("what cannot be started says why", async () => {
  await using agent = await startAgent();
  const { session } = await AgentSession.open(agent.channel, { signal });
  for (const [request, code] of [
    [{ argv: ["/no/such/program"] }, "notFound"],
    [{ argv: ["true"], cwd: "/no/such/directory" }, "notFound"],
    [{ argv: ["true"], user: "nobody-of-that-name" }, "notFound"],
    [{ argv: ["/etc/passwd"] }, "forbidden"],
  ] as const) {
    await assert.rejects(
      session.exec(request, { signal }),
      (error) => error instanceof Fault && error.code === code,
      JSON.stringify(request),
    );
  }
  await session[Symbol.asyncDispose]();
});

test("each number is done once, however often it is said", async () => {
  await using directory = await temporaryDirectory();
  await using agent = await startAgent();
  const host = new RawHost(agent.channel);
  const file = join(directory.path, "count");
  host.say({ s: "S", t: "ping", id: 1 });
  await host.answerTo(1);
  for (let round = 0; round < 3; round += 1) host.say(exec(2, ["sh", "-c", `echo x >> ${file}`]));
  await eventually(() => assert.equal(host.received.filter((each) => each["re"] === 2).length, 3));
  const answers = host.received.filter((each) => each["re"] === 2);
  assert.equal(new Set(answers.map((each) => each["pid"])).size, 1);
  await eventually(() => assert.ok(host.received.some((each) => each["t"] === "exit")));
  host.say(exec(3, ["cat", file]));
  const output = await eventually(
    () => host.received.find((each) => each["t"] === "out" && each["x"] === 3) ?? assert.fail(),
  );
  assert.equal(Buffer.from(String(output["data"]), "base64").toString(), "x\n");
});

test("another session ends the programs of the one before", async () => {
  await using agent = await startAgent();
  const host = new RawHost(agent.channel);
  host.say({ s: "S", t: "ping", id: 1 });
  host.say(exec(2, ["sh", "-c", "trap '' HUP; while :; do sleep 1; done"]));
  const { pid } = await host.answerTo(2);
  assert.ok(existsSync(`/proc/${String(pid)}`));
  host.say({ s: "T", t: "ping", id: 1 });
  await host.answerTo(1, "T");
  host.say(exec(5, ["true"])); // still the old session: not for us
  await eventually(() => assert.ok(!existsSync(`/proc/${String(pid)}`)));
  assert.ok(!host.received.some((each) => each["re"] === 5));
});

test("lines that mean nothing are dropped, and the conversation goes on", async () => {
  await using agent = await startAgent();
  const host = new RawHost(agent.channel);
  const random = seededRandom(testSeed());
  const noise = () =>
    String.fromCharCode(...Array.from({ length: random() * 200 }, () => 32 + random() * 95));
  for (const line of [
    "",
    "{",
    '{"s":"S","t":"ping","id":1',
    '{"s":"S","t":"ping","id":{"deep":1}}',
    '{"s":"S","t":"ping","id":"\\u0000"}',
    `{"s":"${"x".repeat(200)}","t":"ping","id":1}`,
    "x".repeat(200_000),
    `{"s":"S","t":"exec","id":9,"argv":[${'"x",'.repeat(5000)}"x"]}`,
    '{"s":"S","t":"exec","id":2,"argv":["true"]}',
    '\u0001\u0002{"s":"S"}',
    ...Array.from({ length: count({ small: 200, full: 5000 }) }, noise),
  ]) {
    host.say(line);
  }
  host.say({ s: "S", t: "ping", id: 1 });
  await host.answerTo(1);
  host.say({ s: "S", t: "nonsense", id: 2 });
  assert.equal((await host.answerTo(2))["code"], "invalid");
  for (const notice of ["stdin", "eof", "resize", "signal", "credit"])
    host.say({ s: "S", t: notice, x: 77, data: "AA==" });
  host.say({ s: "S", t: "stats", id: 3 });
  assert.ok(Number((await host.answerTo(3))["memoryTotalBytes"]) > 0);
});

test("a host that sends more input than it was allowed loses the program, not the agent", async () => {
  await using agent = await startAgent();
  const host = new RawHost(agent.channel);
  host.say({ s: "S", t: "ping", id: 1 });
  host.say(exec(2, ["sleep", "1000"], { stdin: true }));
  await host.answerTo(2);
  const data = Buffer.alloc(24_000).toString("base64");
  for (let round = 0; round < 40; round += 1) host.say({ s: "S", t: "stdin", x: 2, data });
  const exit = await eventually(
    () => host.received.find((each) => each["t"] === "exit") ?? assert.fail("still runs"),
  );
  assert.equal(exit["signal"], 9);
  host.say({ s: "S", t: "ping", id: 3 });
  await host.answerTo(3);
});

test("only so many programs run at once", async () => {
  await using agent = await startAgent();
  const host = new RawHost(agent.channel);
  host.say({ s: "S", t: "ping", id: 1 });
  for (let id = 2; id < 67; id += 1) host.say(exec(id, ["sleep", "1000"]));
  assert.equal((await host.answerTo(65))["t"], "started");
  assert.equal((await host.answerTo(66))["code"], "busy");
});
