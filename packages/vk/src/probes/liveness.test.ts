import assert from "node:assert/strict";
import { createServer } from "node:http";
import { once } from "node:events";
import { connect, type AddressInfo } from "node:net";
import { test } from "node:test";
import type { VmRuntime } from "@cocoon/vm";
import { livenessCheck, watchLiveness } from "./liveness.ts";

const { signal } = new AbortController();

test("enough failures in a row mean dead; one success begins anew", async () => {
  const answers = [true, false, false, true, false, false, false, true];
  const told: string[] = [];
  await watchLiveness({
    probe: { periodSeconds: 1, failureThreshold: 3 },
    secondMs: 1,
    signal,
    check: () => Promise.resolve({ ok: answers.shift() ?? true, message: "no" }),
    onFailure: () => void told.push("failure"),
    onDead: () => Promise.resolve(void told.push("dead")),
  });
  assert.deepEqual(told, ["failure", "failure", "failure", "failure", "failure", "dead"]);
  assert.equal(answers.length, 1);
});

test("a check that hangs is a failure", async () => {
  let message = "";
  await watchLiveness({
    probe: { failureThreshold: 1, timeoutSeconds: 1 },
    secondMs: 5,
    signal,
    check: () => new Promise(() => undefined),
    onFailure: () => undefined,
    onDead: (text) => Promise.resolve(void (message = text)),
  });
  assert.equal(message, "no answer in time");
});

test("HTTP answers below 400 count, by number or name of the port", async () => {
  const server = createServer((request, response) => {
    response.writeHead(request.url === "/ok" && request.headers["x-who"] === "probe" ? 204 : 500).end();
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const dialled: number[] = [];
  const runtime = {
    dial: (_vm: string, guestPort: number) => {
      dialled.push(guestPort);
      return Promise.resolve(connect(port, "127.0.0.1"));
    },
  } as unknown as VmRuntime;
  const container = { name: "agent", ports: [{ name: "web", containerPort: 80 }] };
  const httpHeaders = [{ name: "X-Who", value: "probe" }];
  const ask = async (path: string, at: number | string) => {
    const probe = { httpGet: { path, port: at, httpHeaders } };
    const check = livenessCheck({ runtime, vmId: "x", container }, probe);
    assert.ok(typeof check === "function");
    return (await check({ signal })).ok;
  };
  assert.equal(await ask("/ok", "web"), true);
  assert.equal(await ask("/bad", 8080), false);
  await assert.rejects(ask("/ok", "nothing"), /"nothing" is no port of container agent/);
  assert.deepEqual(dialled, [80, 8080]);
  assert.equal(typeof livenessCheck({ runtime, vmId: "x", container }, { grpc: { port: 1 } }), "string");
  server.close();
});
