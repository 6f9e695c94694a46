import assert from "node:assert/strict";
import { createServer, type Socket } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import { isFault } from "@cocoon/core";
import { temporaryDirectory } from "@cocoon/testkit";
import { connectQmp } from "./qmp.ts";

const greeting = {
  QMP: { version: { qemu: { major: 7, minor: 2, micro: 22 }, package: "" }, capabilities: [] },
};

/** Something that speaks like QEMU: greets, agrees, and answers as the test wants. */
async function startFakeQemu(
  answer: (command: string, socket: Socket) => object | undefined,
  { greets = true } = {},
): Promise<AsyncDisposable & { readonly directory: string }> {
  const directory = await temporaryDirectory();
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    if (greets) socket.write(`${JSON.stringify(greeting)}\r\n`);
    let rest = "";
    socket.setEncoding("utf8").on("data", (text: string) => {
      const lines = `${rest}${text}`.split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) {
        const { execute, id } = JSON.parse(line) as { execute: string; id: number };
        const reply = execute === "qmp_capabilities" ? { return: {} } : answer(execute, socket);
        if (reply) socket.write(`${JSON.stringify({ ...reply, id })}\r\n`);
      }
    });
  });
  await new Promise<void>((resolve) => server.listen(join(directory.path, "qmp.sock"), resolve));
  return {
    directory: directory.path,
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
      await directory[Symbol.asyncDispose]();
    },
  };
}

test("answers find their questions, and events their listener", async (t) => {
  await using qemu = await startFakeQemu((command, socket) => {
    if (command === "query-status")
      socket.write('{"event":"STOP","timestamp":{"seconds":1,"microseconds":2}}\r\n');
    return command === "query-status"
      ? { return: { status: "paused", running: false } }
      : { return: { name: "x" } };
  });
  using client = await connectQmp({ directory: qemu.directory, socket: "qmp.sock", signal: t.signal });
  const events: string[] = [];
  client.onEvent(({ event }) => events.push(event));
  const [status, name] = await Promise.all([
    client.execute("query-status", { signal: t.signal }),
    client.execute("query-name", { signal: t.signal }),
  ]);
  assert.deepEqual([status.status, name.name, events], ["paused", "x", ["STOP"]]);
});

test("what QEMU refuses is said in its words, a full disk as such", async (t) => {
  await using qemu = await startFakeQemu((command) => ({
    error: {
      class: "GenericError",
      desc: command === "cont" ? "Not now" : "write failed: No space left on device",
    },
  }));
  using client = await connectQmp({ directory: qemu.directory, socket: "qmp.sock", signal: t.signal });
  await assert.rejects(
    client.execute("cont", { signal: t.signal }),
    (error) => isFault(error, "internal") && /Not now/.test(error.message),
  );
  await assert.rejects(client.execute("transaction", { signal: t.signal }), (error) =>
    isFault(error, "outOfSpace"),
  );
});

test("a QEMU that ends fails what waits; one that is silent times out", async (t) => {
  await using qemu = await startFakeQemu((command, socket) => {
    if (command === "system_powerdown") socket.destroy();
    return undefined;
  });
  using client = await connectQmp({ directory: qemu.directory, socket: "qmp.sock", signal: t.signal });
  await assert.rejects(client.execute("stop", { signal: t.signal, timeoutMs: 50 }), (error) =>
    isFault(error, "timeout"),
  );
  await assert.rejects(client.execute("system_powerdown", { signal: t.signal }), (error) =>
    isFault(error, "unavailable"),
  );
  await client.closed;
  await assert.rejects(client.execute("stop", { signal: t.signal }), (error) =>
    isFault(error, "unavailable"),
  );
});

test("no socket is notFound; no greeting, because another client has it, is a timeout", async (t) => {
  await using qemu = await startFakeQemu(() => undefined, { greets: false });
  const options = { directory: qemu.directory, signal: t.signal };
  await assert.rejects(connectQmp({ ...options, socket: "no.sock" }), (error) => isFault(error, "notFound"));
  await assert.rejects(connectQmp({ ...options, socket: "qmp.sock", greetingMs: 100 }), (error) =>
    isFault(error, "timeout"),
  );
});
