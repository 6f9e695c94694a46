import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { test } from "node:test";
import { openTracer } from "./open-tracer.ts";

test("spans reach the collector before the process ends, with the node's name", async () => {
  const received: { readonly path: string; readonly body: string }[] = [];
  const server = createServer((request, response) => {
    void text(request).then((body) => {
      received.push({ path: request.url ?? "", body });
      response.writeHead(200, { "content-type": "application/json" }).end("{}");
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  try {
    const { port } = server.address() as AddressInfo;
    const opened = await openTracer({ endpoint: `http://127.0.0.1:${port}/`, node: "node-7" });
    opened.tracer.startSpan("hibernate", { attributes: { "vm.name": "vk-lab-demo" } }).end();
    await opened[Symbol.asyncDispose]();
    assert.deepEqual(
      received.map(({ path }) => path),
      ["/v1/traces"],
    );
    for (const word of ["hibernate", "vk-lab-demo", "node-7", "vk-cocoon"])
      assert.ok(received[0]?.body.includes(word), `${word} in ${received[0]?.body}`);
  } finally {
    server.closeAllConnections();
    server.close();
  }
});

test("without a collector spans go nowhere", async () => {
  await using opened = await openTracer({ endpoint: undefined, node: "node-7" });
  const span = opened.tracer.startSpan("hibernate");
  assert.equal(span.isRecording(), false);
  span.end();
});
