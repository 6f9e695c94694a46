import assert from "node:assert/strict";
import { once } from "node:events";
import { connect } from "node:net";
import { test } from "node:test";
import { startHttpServer } from "./http-server.ts";

const options = { name: "demo", host: "127.0.0.1", port: 0 } as const;

test("a taken port is one clear message", async () => {
  await using first = await startHttpServer({ ...options, handler: (_request, response) => response.end() });
  await assert.rejects(
    startHttpServer({ ...options, port: first.port, handler: (_request, response) => response.end() }),
    /demo cannot listen: 127\.0\.0\.1:\d+ is in use by another program/,
  );
});

test("stopping lets an open request finish and takes no new one", async () => {
  const { promise: release, resolve: finish } = Promise.withResolvers<undefined>();
  const { promise: arrived, resolve: arrive } = Promise.withResolvers<undefined>();
  const server = await startHttpServer({
    ...options,
    handler: (_request, response) => {
      arrive(undefined);
      void release.then(() => response.end("late but whole"));
    },
  });
  const answer = fetch(server.url).then((response) => response.text());
  await arrived;
  const stopped = server.stop();
  finish(undefined);
  assert.equal(await answer, "late but whole");
  await stopped;
  await assert.rejects(fetch(server.url));
});

test("a request that never ends is cut after the drain time", async () => {
  const server = await startHttpServer({ ...options, drainMs: 50, handler: () => undefined });
  const hanging = fetch(server.url);
  const failed = assert.rejects(hanging);
  await new Promise((resolve) => setTimeout(resolve, 20));
  await server.stop();
  await failed;
});

test("what is not HTTP gets 400, headers beyond the limit 431", async () => {
  await using server = await startHttpServer({
    ...options,
    maxHeaderBytes: 1024,
    handler: (_request, response) => response.end(),
  });
  const say = async (text: string) => {
    const socket = connect(server.port, "127.0.0.1");
    let answer = "";
    socket.setEncoding("utf8").on("data", (chunk: string) => (answer += chunk));
    socket.write(text);
    await once(socket, "close");
    return answer;
  };
  assert.match(await say("nonsense\r\n\r\n"), /^HTTP\/1\.1 400 /);
  assert.match(await say(`GET / HTTP/1.1\r\nhost: x\r\nx: ${"y".repeat(5000)}\r\n\r\n`), /^HTTP\/1\.1 431 /);
});
