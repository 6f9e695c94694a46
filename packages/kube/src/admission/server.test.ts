import assert from "node:assert/strict";
import { once } from "node:events";
import { test, type TestContext } from "node:test";
import net from "node:net";
import tls from "node:tls";
import { createLogger, Registry } from "@cocoon/core";
import { eventually } from "@cocoon/testkit";
import { PassThrough } from "node:stream";
import { applyJsonPatch } from "@cocoon/core/json-patch";
import {
  allow,
  allowWithPatch,
  deny,
  type AdmissionEndpoint,
  type AdmissionRequest,
  type Middleware,
  type ReviewEvent,
} from "./index.ts";
import {
  podReview,
  startTestServer,
  testClient,
  type Sending,
  type TestServerOptions,
} from "./testing/review-client.ts";

const yes: AdmissionEndpoint = { name: "yes", handler: () => allow() };
const patching: AdmissionEndpoint = {
  name: "patching",
  handler: () => allowWithPatch([{ op: "add", path: "/metadata/labels", value: { seen: "yés" } }]),
};

async function serving(t: TestContext, options: TestServerOptions) {
  const server = await startTestServer(options);
  const client = testClient(server.url);
  t.after(async () => {
    client[Symbol.dispose]();
    await server.stop();
  });
  return { server, client };
}

test("the listener's check fails while no more connections are accepted", async (t) => {
  const { server } = await serving(t, { endpoints: { "/yes": yes }, limits: { connections: 2 } });
  await server.checkListener();
  const silent = [0, 1].map(() => net.connect(server.port, "127.0.0.1"));
  t.after(() => silent.forEach((socket) => socket.destroy()));
  await Promise.all(silent.map((socket) => once(socket, "connect")));
  assert.equal(await server.readiness(), undefined);
  await assert.rejects(server.checkListener(), /admission server does not answer/);
  for (const socket of silent) socket.destroy();
  await eventually(() => server.checkListener(), { timeoutMs: 10_000 });
});

const review = JSON.stringify(podReview());
const json = { "content-type": "application/json" };

const table: readonly [string, string, Sending, number][] = [
  ["a review", "/yes", { body: review }, 200],
  [
    "a review with a charset",
    "/yes",
    { body: review, headers: { "content-type": "application/JSON; charset=utf-8" } },
    200,
  ],
  ["a review on a path with a query", "/yes?timeout=2s&x=1", { body: review }, 200],
  ["an unknown path", "/no", { body: review }, 404],
  ["a path below", "/yes/", { body: review }, 404],
  ["GET", "/yes", { method: "GET" }, 405],
  ["PUT", "/yes", { method: "PUT", body: review }, 405],
  ["DELETE", "/yes", { method: "DELETE" }, 405],
  ["HEAD", "/yes", { method: "HEAD" }, 405],
  ["no content type", "/yes", { body: review, headers: {} }, 415],
  ["text", "/yes", { body: review, headers: { "content-type": "text/plain" } }, 415],
  [
    "protobuf",
    "/yes",
    { body: review, headers: { "content-type": "application/vnd.kubernetes.protobuf" } },
    415,
  ],
  [
    "JSON of another kind",
    "/yes",
    { body: review, headers: { "content-type": "application/json-patch+json" } },
    415,
  ],
  ["a compressed body", "/yes", { body: review, headers: { ...json, "content-encoding": "gzip" } }, 415],
  ["an empty body", "/yes", { body: "" }, 400],
  ["half a body", "/yes", { body: review.slice(0, -5) }, 400],
  [
    "a review without request",
    "/yes",
    { body: '{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}' },
    400,
  ],
  ["bytes that are no text", "/yes", { body: Buffer.from([0xff, 0xfe, 0x00]) }, 400],
  ["a deep well", "/yes", { body: `{"request":{"object":{"a":${"[".repeat(5000)}` }, 400],
  ["a body beyond the limit", "/yes", { body: `{"request":{"object":{"a":"${"x".repeat(70_000)}"}}}` }, 413],
  ["the health path", "/healthz", { method: "GET" }, 200],
  ["the readiness path", "/readyz", { method: "GET" }, 200],
];

test("every request gets the status that fits it, and the connection stays usable", async (t) => {
  const { client } = await serving(t, { endpoints: { "/yes": yes }, limits: { bodyBytes: 65_536 } });
  for (const [name, path, sending, status] of table) {
    const answer = await client.send(path, sending);
    assert.equal(answer.status, status, `${name}: ${answer.text}`);
    if (status === 405) assert.equal(answer.headers["allow"], "POST");
    if (status === 415) assert.equal(answer.headers["accept"], "application/json");
    assert.equal((await client.send("/yes", { body: review })).status, 200, `after ${name}`);
  }
});

test("a body beyond the limit is refused with 413 when its length is not announced either", async (t) => {
  const { server } = await serving(t, { endpoints: { "/yes": yes }, limits: { bodyBytes: 10_000 } });
  const socket = tls.connect({ port: server.port, host: "127.0.0.1", rejectUnauthorized: false });
  t.after(() => socket.destroy());
  await once(socket, "secureConnect");
  socket.write(
    "POST /yes HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n",
  );
  const chunk = `1000\r\n${"x".repeat(0x1000)}\r\n`;
  for (let sent = 0; sent < 8; sent += 1) socket.write(chunk);
  const [data] = (await once(socket, "data")) as [Buffer];
  assert.match(data.toString(), /^HTTP\/1\.1 413 /);
  assert.match(data.toString(), /limit is 10000 bytes/);
  socket.resume();
  socket.end("0\r\n\r\n");
  await once(socket, "close");
});

test("reviews of both versions are answered in their own, with the uid copied", async (t) => {
  const { client } = await serving(t, { endpoints: { "/patch": patching } });
  for (const version of ["v1", "v1beta1"]) {
    const answer = await client.send("/patch", {
      body: JSON.stringify(podReview({ uid: `u-${version}` }, version)),
    });
    assert.equal(answer.headers["content-type"], "application/json");
    const { apiVersion, response } = JSON.parse(answer.text) as {
      apiVersion: string;
      response: { uid: string; allowed: boolean; patch: string; patchType: string };
    };
    assert.equal(apiVersion, `admission.k8s.io/${version}`);
    assert.equal(response.uid, `u-${version}`);
    assert.equal(response.patchType, "JSONPatch");
    const patch = JSON.parse(Buffer.from(response.patch, "base64").toString()) as [];
    assert.deepEqual(applyJsonPatch({ metadata: {} }, patch), { metadata: { labels: { seen: "yés" } } });
  }
});

test("several handlers share one server, each sees the whole request, and nothing means allowed", async (t) => {
  const seen: AdmissionRequest[] = [];
  const { client } = await serving(t, {
    endpoints: {
      "/look": { name: "look", handler: async (request) => void seen.push(request) },
      "/never": { name: "never", handler: () => deny("nevér", { warnings: ["think again"] }) },
    },
  });
  const looked = await client.review("/look", podReview({ dryRun: true, operation: "UPDATE" }));
  assert.deepEqual(looked.response, { uid: "705ab4f5-6393-11e8-b7cc-42010a800002", allowed: true });
  assert.equal(seen[0]?.dryRun, true);
  assert.equal(seen[0]?.operation, "UPDATE");
  assert.deepEqual(seen[0]?.userInfo.groups, ["system:authenticated"]);
  const { response } = await client.review("/never", podReview());
  assert.equal(response["allowed"], false);
  assert.deepEqual(response["warnings"], ["think again"]);
  assert.equal((response["status"] as { message: string }).message, "nevér");
});

test("a handler that throws, at once or later, is a bare 500; the reason is in the log alone", async (t) => {
  const output = new PassThrough();
  let log = "";
  output.on("data", (chunk: Buffer) => (log += chunk.toString()));
  const { client } = await serving(t, {
    log: createLogger({ name: "test", destination: output }),
    endpoints: {
      "/now": {
        name: "now",
        handler: () => {
          throw new TypeError("cannot read property of the vault");
        },
      },
      "/later": { name: "later", handler: () => Promise.reject(new Error("the vault is shut")) },
      "/unwritable": {
        name: "unwritable",
        handler: () => allowWithPatch([{ op: "add", path: "/a", value: 10n }]),
      },
    },
  });
  for (const path of ["/now", "/later", "/unwritable"]) {
    const answer = await client.send(path, { body: review });
    assert.equal(answer.status, 500, path);
    assert.doesNotMatch(answer.text, /vault|BigInt|\.ts/);
  }
  await eventually(() => {
    assert.match(log, /property of the vault/);
    assert.match(log, /the vault is shut/);
    assert.match(log, /705ab4f5-6393-11e8-b7cc-42010a800002/);
  });
});

/** Settles only when its signal aborts, with the reason. */
function waiting(name: string, reasons: unknown[], onExpiry?: "allow" | "deny"): AdmissionEndpoint {
  return {
    name,
    ...(onExpiry ? { onExpiry } : {}),
    handler: (_request, { signal }) =>
      new Promise((resolve) => {
        signal.addEventListener("abort", () => {
          reasons.push(signal.reason);
          resolve(allow());
        });
      }),
  };
}

test("a handler that takes too long is cut off within the API server's timeout, as its policy says", async (t) => {
  const reasons: unknown[] = [];
  const events: ReviewEvent[] = [];
  const registry = new Registry();
  const { client } = await serving(t, {
    registry,
    observe: (event) => events.push(event),
    endpoints: {
      "/deny": waiting("closed", reasons),
      "/allow": waiting("open", reasons, "allow"),
    },
  });
  const denied = await client.review("/deny?timeout=100ms", podReview());
  assert.equal(denied.response["allowed"], false);
  const status = denied.response["status"] as { code: number; reason: string; message: string };
  assert.deepEqual([status.code, status.reason], [504, "Timeout"]);
  assert.match(status.message, /closed: no decision within 0\.08 s/);
  const allowed = await client.review("/allow?timeout=100ms", podReview());
  assert.equal(allowed.response["allowed"], true);
  assert.match(String(allowed.response["warnings"]), /open: no decision within 0\.08 s/);
  assert.deepEqual(
    events.map(({ handler, result }) => [handler, result]),
    [
      ["closed", "expired"],
      ["open", "expired"],
    ],
  );
  assert.match(await registry.metrics(), /admission_requests_total\{handler="closed",result="expired"\} 1/);
  assert.equal(reasons.length, 2);
  for (const reason of reasons) assert.equal((reason as { code: string }).code, "timeout");
});

test("the budget follows the timeout of the request, within bounds", async (t) => {
  const budgets: number[] = [];
  const { client } = await serving(t, {
    endpoints: { "/b": { name: "b", handler: (_request, { budgetMs }) => void budgets.push(budgetMs) } },
  });
  for (const query of [
    "?timeout=5s",
    "",
    "?timeout=nonsense",
    "?timeout=-1s",
    "?timeout=10m",
    "?timeout=1m30s&a=b",
  ])
    await client.review(`/b${query}`, podReview());
  assert.deepEqual(budgets, [4_000, 8_000, 8_000, 8_000, 24_000, 24_000]);
});

test("when the API server hangs up, the handler is aborted and nothing breaks", async (t) => {
  const reasons: unknown[] = [];
  const events: ReviewEvent[] = [];
  const registry = new Registry();
  const { server, client } = await serving(t, {
    registry,
    observe: (event) => events.push(event),
    endpoints: { "/wait": waiting("wait", reasons), "/yes": yes },
  });
  const hangUpOnceArrived = async (handler: string, request: string) => {
    const socket = tls.connect({ port: server.port, host: "127.0.0.1", rejectUnauthorized: false });
    await once(socket, "secureConnect");
    socket.write(`POST /${handler} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n${request}`);
    const open = `admission_in_flight_requests{handler="${handler}"} 1`;
    await eventually(async () => assert.ok((await registry.metrics()).includes(open)));
    socket.destroy();
  };
  await hangUpOnceArrived("wait", `Content-Length: ${review.length}\r\n\r\n${review}`);
  await eventually(() => assert.equal(events.length, 1));
  await hangUpOnceArrived("yes", "Content-Length: 5000\r\n\r\n{");
  await eventually(() => assert.equal(events.length, 2));
  assert.deepEqual(
    events.map(({ handler, result, status }) => [handler, result, status]),
    [
      ["wait", "aborted", 0],
      ["yes", "aborted", 0],
    ],
  );
  assert.deepEqual(
    reasons.map((reason) => (reason as { code: string }).code),
    ["unavailable"],
  );
  assert.equal((await client.send("/yes", { body: review })).status, 200);
});

test("a client that trickles its request is cut off, in headers and in body, while others are served", async (t) => {
  const { server, client } = await serving(t, {
    endpoints: { "/yes": yes },
    limits: { headersMs: 1_500, requestMs: 3_000 },
  });
  const starts = [
    "POST /yes HTTP/1.1\r\nHost: x\r\nX-A: ",
    "POST /yes HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{",
  ];
  const answers = starts.map(async (start) => {
    const socket = tls.connect({ port: server.port, host: "127.0.0.1", rejectUnauthorized: false });
    socket.on("error", () => undefined);
    await once(socket, "secureConnect");
    let text = "";
    socket.on("data", (chunk: Buffer) => (text += chunk.toString()));
    socket.write(start);
    const trickle = setInterval(() => socket.writable && socket.write("a"), 50);
    await once(socket, "close");
    clearInterval(trickle);
    return text;
  });
  assert.equal((await client.send("/yes", { body: review })).status, 200);
  for (const text of await Promise.all(answers)) assert.match(text, /^HTTP\/1\.1 408 /);
});

test("more reviews at once than allowed are sent away with 429", async (t) => {
  const release = Promise.withResolvers<void>();
  const { client } = await serving(t, {
    limits: { inFlight: 2 },
    endpoints: { "/wait": { name: "wait", handler: () => release.promise }, "/yes": yes },
  });
  const held = [1, 2].map(() => client.send("/wait", { body: review }));
  await eventually(async () => {
    const answer = await client.send("/yes", { body: review });
    assert.equal(answer.status, 429);
    assert.equal(answer.headers["retry-after"], "1");
  });
  release.resolve();
  for (const answer of await Promise.all(held)) assert.equal(answer.status, 200);
});

test("metrics count by handler and result, time every request and show what is open", async (t) => {
  const registry = new Registry();
  const release = Promise.withResolvers<void>();
  const { client } = await serving(t, {
    registry,
    metricPrefix: "hook",
    endpoints: {
      "/yes": yes,
      "/patch": patching,
      "/no": { name: "no", handler: async () => deny("no") },
      "/wait": { name: "wait", handler: () => release.promise },
    },
  });
  await client.send("/yes", { body: review });
  await client.send("/yes", { body: review });
  await client.send("/yes", { body: "{" });
  await client.send("/patch", { body: review });
  await client.send("/no", { body: review });
  const held = client.send("/wait", { body: review });
  await eventually(async () =>
    assert.match(await registry.metrics(), /hook_in_flight_requests\{handler="wait"\} 1/),
  );
  release.resolve();
  await held;
  const text = await registry.metrics();
  for (const line of [
    'hook_requests_total{handler="yes",result="allow"} 2',
    'hook_requests_total{handler="yes",result="rejected"} 1',
    'hook_requests_total{handler="patch',
    'hook_requests_total{handler="no",result="deny"} 1',
    'hook_request_duration_seconds_count{handler="yes"} 3',
    'hook_in_flight_requests{handler="wait"} 0',
  ])
    assert.ok(text.includes(line), line);
});

test("middleware is wrapped around every handler, the first outermost", async (t) => {
  const order: string[] = [];
  const tracing =
    (name: string): Middleware =>
    (next, endpoint) =>
    async (request, context) => {
      order.push(`${name} ${endpoint.name} ${context.client}`);
      return next(request, context);
    };
  const { client } = await serving(t, {
    endpoints: { "/yes": yes },
    middleware: [tracing("a"), tracing("b")],
  });
  await client.review("/yes", podReview());
  assert.deepEqual(order, ["a yes 127.0.0.1", "b yes 127.0.0.1"]);
});

test("readiness says no while a check fails and while the server stops", async (t) => {
  let problem: string | undefined = "cache not synced";
  const { server, client } = await serving(t, {
    endpoints: { "/yes": yes },
    ready: () => problem,
    lameDuckMs: 3_000,
  });
  const before = await client.send("/readyz", { method: "GET" });
  assert.deepEqual([before.status, before.text], [503, "cache not synced"]);
  problem = undefined;
  const ready = await client.send("/readyz", { method: "GET" });
  assert.deepEqual([ready.status, ready.text], [200, "ready"]);
  const stopped = server.stop();
  const stopping = await client.send("/readyz", { method: "GET" });
  assert.equal(stopping.status, 503);
  const last = await client.send("/yes", { body: review });
  assert.deepEqual([last.status, last.headers["connection"]], [200, "close"]);
  await stopped;
});

test("other routes live on the same port", async (t) => {
  const { client } = await serving(t, {
    endpoints: { "/yes": yes },
    routes: { "/debug": (_request, response) => void response.end("inside") },
  });
  assert.equal((await client.send("/debug?x=1", { method: "GET" })).text, "inside");
});
