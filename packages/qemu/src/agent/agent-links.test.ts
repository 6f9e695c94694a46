/** Which port of a guest is talked on, and what is done about one that stays silent. */
import assert from "node:assert/strict";
import { createServer, type Server } from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { isFault } from "@cocoon/core";
import { temporaryDirectory } from "@cocoon/testkit";
import { vmFile } from "../store/layout.ts";
import { AgentLinks } from "./agent-links.ts";

/** A port of a guest whose agent answers pings, or hears nothing. Counts the connections. */
async function openPort(directory: string, port: number, answers: () => boolean) {
  let connections = 0;
  const server: Server = createServer((socket) => {
    connections += 1;
    socket.on("error", () => undefined);
    createInterface({ input: socket }).on("line", (line) => {
      if (line === "" || !answers()) return;
      const { s, id } = JSON.parse(line) as { s: string; id: number };
      const pong = { s, t: "pong", re: id, agent: "test", features: [], boot: "1", epoch: "e", uptimeMs: 1 };
      socket.write(`${JSON.stringify(pong)}\n`);
    });
  });
  await new Promise<void>((resolve) => server.listen(join(directory, vmFile.agentSocket(port)), resolve));
  return {
    connections: () => connections,
    [Symbol.asyncDispose]: async () => {
      server.close();
      await Promise.resolve();
    },
  };
}

const { signal } = new AbortController();

test("a port that stays silent is left for the next one", async () => {
  await using directory = await temporaryDirectory();
  await using silent = await openPort(directory.path, 0, () => false);
  await using healthy = await openPort(directory.path, 1, () => true);
  await using links = new AgentLinks({ silenceMs: 1_000 });
  const epoch = await links.use(directory.path, async (_session, pong) => pong.epoch, { signal });
  assert.equal(epoch, "e");
  assert.deepEqual([silent.connections(), healthy.connections()], [1, 1]);
});

test("a guest that answers late is found, whichever port it comes back on", async () => {
  await using directory = await temporaryDirectory();
  const began = performance.now();
  const answers = () => performance.now() - began > 400;
  await using ports = new AsyncDisposableStack();
  for (const port of [0, 1, 2, 3]) ports.use(await openPort(directory.path, port, answers));
  await using links = new AgentLinks({ silenceMs: 50 });
  assert.equal(await links.use(directory.path, async (_session, pong) => pong.epoch, { signal }), "e");
});

test("who waits for a guest that never answers is told when his time is over", async () => {
  await using directory = await temporaryDirectory();
  await using ports = new AsyncDisposableStack();
  for (const port of [0, 1, 2, 3]) ports.use(await openPort(directory.path, port, () => false));
  await using links = new AgentLinks({ silenceMs: 50 });
  const waiting = links.use(directory.path, async () => "answered", { signal: AbortSignal.timeout(500) });
  await assert.rejects(waiting, (error) => isFault(error, "timeout"));
});
