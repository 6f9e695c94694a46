import assert from "node:assert/strict";
import type { IncomingMessage } from "node:http";
import { connect, type Socket } from "node:net";
import { test } from "node:test";
import { createRegistry, isFault, startHttpServer, type FaultCode } from "@cocoon/core";
import { eventually } from "@cocoon/testkit";
import { configMaps, nodes, pods } from "../builtin.ts";
import type { KubeObject } from "../object.ts";
import { openKubeClient } from "./open-client.ts";
import { readText, sendJson, startFakeApiServer, statusBody } from "../testing/fake-api-server.ts";

const { signal } = new AbortController();
const web = { namespace: "shop", name: "web" };

async function failsWith(
  promise: Promise<unknown>,
  code: FaultCode,
  ...parts: readonly RegExp[]
): Promise<void> {
  await assert.rejects(promise, (error) => {
    assert.ok(isFault(error, code), `${code} expected: ${String(error)}`);
    for (const part of parts) assert.match(error.message, part);
    return true;
  });
}

test("each call has its method, path, body and content type", async () => {
  const seen: string[] = [];
  await using server = await startFakeApiServer((request, response) => {
    void readText(request).then((body) => {
      seen.push(
        [request.method, request.url, request.headers["content-type"], body].filter(Boolean).join(" "),
      );
      sendJson(response, 200, { metadata: { name: "web" }, items: null });
    });
  });
  await using client = await openKubeClient({ kubeconfig: await server.kubeconfig(), signal });
  const pod = { metadata: { namespace: "shop", name: "web" } };
  const key = web;
  await client.get(pods, key, { signal });
  await client.get(pods, key, { signal, subresource: "status" });
  await client.list(pods, { signal, labelSelector: "a=b,c", limit: 5, continueToken: "x/y" });
  await client.list(nodes, { signal, fieldSelector: "metadata.name=n1" });
  await client.create(pods, pod, { signal, dryRun: true, fieldManager: "me" });
  await client.create(
    pods,
    { ...pod, apiVersion: "policy/v1", kind: "Eviction" },
    { signal, subresource: "eviction" },
  );
  await client.update(pods, pod, { signal, subresource: "status" });
  await client.patch(pods, { key, patch: { type: "merge", body: { a: 1 } } }, { signal });
  await client.patch(pods, { key, patch: { type: "strategic", body: {} } }, { signal, subresource: "scale" });
  await client.patch(
    pods,
    { key, patch: { type: "json", body: [{ op: "remove", path: "/a" }] } },
    { signal },
  );
  await client.patch(
    pods,
    { key, patch: { type: "apply", body: {}, force: true } },
    { signal, fieldManager: "me" },
  );
  await client.delete(pods, key, { signal, preconditions: { uid: "u" }, propagationPolicy: "Foreground" });
  await client.raw({ method: "POST", path: "/apis/x?y=z", body: { b: 2 }, signal });
  const pods1 = "/api/v1/namespaces/shop/pods";
  assert.deepEqual(seen, [
    `GET ${pods1}/web`,
    `GET ${pods1}/web/status`,
    "GET /api/v1/pods?labelSelector=a%3Db%2Cc&limit=5&continue=x%2Fy",
    "GET /api/v1/nodes?fieldSelector=metadata.name%3Dn1",
    `POST ${pods1}?dryRun=All&fieldManager=me application/json {"metadata":{"namespace":"shop","name":"web"},"apiVersion":"v1","kind":"Pod"}`,
    `POST ${pods1}/web/eviction application/json {"metadata":{"namespace":"shop","name":"web"},"apiVersion":"policy/v1","kind":"Eviction"}`,
    `PUT ${pods1}/web/status application/json {"metadata":{"namespace":"shop","name":"web"},"apiVersion":"v1","kind":"Pod"}`,
    `PATCH ${pods1}/web application/merge-patch+json {"a":1}`,
    `PATCH ${pods1}/web/scale application/strategic-merge-patch+json {}`,
    `PATCH ${pods1}/web application/json-patch+json [{"op":"remove","path":"/a"}]`,
    `PATCH ${pods1}/web?fieldManager=me&force=true application/apply-patch+yaml {}`,
    `DELETE ${pods1}/web application/json {"apiVersion":"v1","kind":"DeleteOptions","preconditions":{"uid":"u"},"propagationPolicy":"Foreground"}`,
    'POST /apis/x?y=z application/json {"b":2}',
  ]);
});

test("a server below a path, plain HTTP, and an HTTP proxy", async () => {
  const paths: (string | undefined)[] = [];
  await using server = await startFakeApiServer((request, response) => {
    paths.push(request.url);
    sendJson(response, 200, { metadata: {} });
  });
  const call = async (cluster: Record<string, unknown>) => {
    await using client = await openKubeClient({ kubeconfig: await server.kubeconfig({ cluster }), signal });
    await client.get(nodes, { name: "n" }, { signal });
  };
  await call({ server: `${server.url}/k8s/clusters/c-1/` });
  await using plain = await startHttpServer({
    name: "plain",
    host: "127.0.0.1",
    port: 0,
    handler: (request, response) => {
      paths.push(`plain ${request.url}`);
      sendJson(response, 200, {});
    },
  });
  await call({ server: plain.url });
  await using proxy = await startHttpServer({
    name: "proxy",
    host: "127.0.0.1",
    port: 0,
    handler: () => assert.fail(),
  });
  proxy.server.on("connect", (request: IncomingMessage, socket: Socket) => {
    paths.push(`connect ${request.url}`);
    const { port } = new URL(server.url);
    const upstream = connect(Number(port), "127.0.0.1", () => {
      socket.write("HTTP/1.1 200 OK\r\n\r\n");
      upstream.pipe(socket).pipe(upstream);
    });
    socket.on("error", () => upstream.destroy());
    upstream.on("error", () => socket.destroy());
  });
  await call({ "proxy-url": proxy.url });
  assert.deepEqual(paths, [
    "/k8s/clusters/c-1/api/v1/nodes/n",
    "plain /api/v1/nodes/n",
    `connect ${new URL(server.url).host}`,
    "/api/v1/nodes/n",
  ]);
});

test("a name cannot point at another path, and what is needed must be there", async () => {
  await using server = await startFakeApiServer((_request, response) => sendJson(response, 200, {}));
  await using client = await openKubeClient({ kubeconfig: await server.kubeconfig(), signal });
  for (const name of ["", ".", "..", "a/b", "../../nodes/n1"])
    await failsWith(
      client.get(pods, { namespace: "shop", name }, { signal }),
      "badRequest",
      /cannot be a name/,
    );
  await failsWith(client.get(pods, { name: "web" }, { signal }), "badRequest", /a namespace is needed/);
  await failsWith(
    client.create(pods, { metadata: { name: "web" } }, { signal }),
    "badRequest",
    /metadata.namespace/,
  );
  const apply = client.patch(pods, { key: web, patch: { type: "apply", body: {} } }, { signal });
  await failsWith(apply, "badRequest", /fieldManager/);
  await failsWith(client.raw({ method: "GET", path: "version", signal }), "badRequest", /must begin with/);
});

test("pages walks all pages, and items carry their kind", async () => {
  const urls: (string | undefined)[] = [];
  await using server = await startFakeApiServer((request, response) => {
    urls.push(request.url);
    const page = urls.length;
    const items: KubeObject[] = [{ metadata: { name: `m${page}` } }];
    sendJson(response, 200, {
      metadata: { resourceVersion: "7", ...(page < 3 && { continue: `c${page}` }) },
      items,
    });
  });
  await using client = await openKubeClient({ kubeconfig: await server.kubeconfig(), signal });
  const all: KubeObject[] = [];
  const options = { signal, namespace: "n", limit: 1 };
  for await (const page of client.pages(configMaps, options)) all.push(...page.items);
  assert.deepEqual(
    all.map((item) => [item.apiVersion, item.kind, item.metadata.name]),
    [1, 2, 3].map((page) => ["v1", "ConfigMap", `m${page}`]),
  );
  const path = "/api/v1/namespaces/n/configmaps?limit=1";
  assert.deepEqual(urls, [path, `${path}&continue=c1`, `${path}&continue=c2`]);
});

test("429 with Retry-After is sent again, but not beyond the deadline and not when it is an answer", async () => {
  let answers: (readonly [number, Record<string, string>, unknown])[] = [];
  let requests = 0;
  await using server = await startFakeApiServer((_request, response) => {
    requests += 1;
    const [code, headers, body] = answers.shift() ?? [200, {}, { metadata: { name: "web" } }];
    for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
    sendJson(response, code, body);
  });
  await using client = await openKubeClient({ kubeconfig: await server.kubeconfig(), signal });
  const busy = [429, { "retry-after": "0" }, statusBody(429, "TooManyRequests")] as const;
  answers = [busy, busy, busy];
  await client.update(pods, { metadata: web }, { signal });
  assert.equal(requests, 4);

  requests = 0;
  answers = [[429, { "retry-after": "100" }, statusBody(429, "TooManyRequests")]];
  await assert.rejects(client.get(pods, web, { signal, timeoutMs: 5_000 }), {
    code: "tooManyRequests",
    retryAfterMs: 100_000,
  });
  const budget = { details: { causes: [{ reason: "DisruptionBudget", message: "needs 2" }] } };
  answers = [[429, { "retry-after": "0" }, statusBody(429, "TooManyRequests", budget)]];
  await failsWith(client.get(pods, web, { signal }), "tooManyRequests");
  answers = [[503, { "retry-after": "0" }, statusBody(503, "ServiceUnavailable")]];
  await failsWith(client.get(pods, web, { signal }), "unavailable");
  assert.equal(requests, 3);
});

test("a call ends at its deadline or when its caller gives up, and the fault names which", async () => {
  await using server = await startFakeApiServer((_request, response) => {
    response.writeHead(200, { "content-type": "application/json" });
    response.write("{"); // and nothing more
  });
  await using client = await openKubeClient({ kubeconfig: await server.kubeconfig(), signal });
  await failsWith(client.get(pods, web, { signal, timeoutMs: 50 }), "timeout", /within (?:50|4\d) ms/);
  const giveUp = new AbortController();
  const call = client.get(pods, web, { signal: giveUp.signal });
  const reason = new Error("changed my mind");
  setTimeout(() => giveUp.abort(reason), 20);
  await assert.rejects(call, (error) => error === reason);
  await assert.rejects(client.get(pods, web, { signal: giveUp.signal }), (error) => error === reason);
});

test("a read whose connection is cut is sent once more, a write never", async () => {
  const seen: (string | undefined)[] = [];
  await using server = await startFakeApiServer((request, response) => {
    seen.push(request.method);
    if (seen.length === 2 && request.method === "GET") sendJson(response, 200, { metadata: { name: "web" } });
    else request.socket.destroy();
  });
  await using client = await openKubeClient({ kubeconfig: await server.kubeconfig(), signal });
  assert.equal((await client.get(pods, web, { signal })).metadata.name, "web");
  await failsWith(client.update(pods, { metadata: web }, { signal }), "unavailable", /connection was cut/);
  assert.deepEqual(seen, ["GET", "GET", "PUT"]);
});

test("an answer that is too long, or no JSON, is a clear fault", async () => {
  await using server = await startFakeApiServer((request, response) => {
    if (request.url?.endsWith("long")) response.end("x".repeat(100_000));
    else response.end("<html>");
  });
  const kubeconfig = await server.kubeconfig();
  await using client = await openKubeClient({ kubeconfig, signal, maxAnswerBytes: 50_000 });
  await failsWith(client.get(pods, web, { signal }), "unavailable", /not JSON; is this an API server/);
  await failsWith(client.raw({ method: "GET", path: "/long", signal }), "unavailable");
  assert.equal(await client.raw({ method: "GET", path: "/text", signal }), "<html>");
});

test("a kind that the server does not serve is not an object that is not there", async () => {
  await using server = await startFakeApiServer((request, response) => {
    if (request.url?.includes("/pods/")) {
      sendJson(response, 404, statusBody(404, "NotFound", { details: { name: "web", kind: "pods" } }));
    } else {
      response.writeHead(404).end("404 page not found");
    }
  });
  await using client = await openKubeClient({ kubeconfig: await server.kubeconfig(), signal });
  await failsWith(client.get(pods, web, { signal }), "notFound");
  await failsWith(client.get(configMaps, web, { signal }), "unavailable", /does not serve configmaps of v1/);
  await failsWith(client.raw({ method: "GET", path: "/nothing", signal }), "notFound");
});

test("requests are counted by verb, resource and code, for two clients of one program alike", async () => {
  await using server = await startFakeApiServer((request, response) => {
    if (request.method === "PUT") sendJson(response, 409, statusBody(409, "Conflict"));
    else sendJson(response, 200, { metadata: {} });
  });
  const registry = createRegistry("test");
  const kubeconfig = await server.kubeconfig();
  await using client = await openKubeClient({ kubeconfig, signal, registry });
  await using other = await openKubeClient({ kubeconfig, signal, registry });
  await client.get(pods, web, { signal });
  await other.get(pods, web, { signal });
  await failsWith(client.update(pods, { metadata: web }, { signal }), "conflict");
  await server.server.stop();
  await failsWith(client.list(configMaps, { signal }), "unavailable");
  const text = await registry.metrics();
  assert.match(text, /kube_client_requests_total\{verb="get",resource="pods",code="200"\} 2/);
  assert.match(text, /kube_client_requests_total\{verb="update",resource="pods",code="409"\} 1/);
  assert.match(text, /kube_client_requests_total\{verb="list",resource="configmaps",code="unavailable"\} 1/);
  assert.match(text, /kube_client_request_duration_seconds_count\{verb="get",resource="pods"\} 2/);
});

test("a thousand calls at once go over a bounded number of connections, none is held back by time", async () => {
  const sockets = new Set<unknown>();
  await using server = await startFakeApiServer((request, response) => {
    sockets.add(request.socket);
    sendJson(response, 200, { metadata: { name: "web" } });
  });
  await using client = await openKubeClient({
    kubeconfig: await server.kubeconfig(),
    signal,
    maxConnections: 8,
  });
  const calls = Array.from({ length: 1000 }, () => client.get(pods, web, { signal }));
  assert.equal((await Promise.all(calls)).length, 1000);
  assert.ok(sockets.size <= 8, `${sockets.size} connections`);
});

test("calls one after the other use the same connections, whatever their method", async () => {
  const sockets = new Set<unknown>();
  await using server = await startFakeApiServer((request, response) => {
    sockets.add(request.socket);
    void readText(request).then(() => sendJson(response, 200, { metadata: { name: "web" } }));
  });
  await using client = await openKubeClient({ kubeconfig: await server.kubeconfig(), signal });
  for (let round = 0; round < 3; round += 1) {
    await client.delete(pods, web, { signal });
    await client.get(pods, web, { signal });
    await client.patch(pods, { key: web, patch: { type: "merge", body: {} } }, { signal });
  }
  // A connection is free again only after a turn of the event loop, so that two take turns.
  assert.ok(sockets.size <= 2, `${sockets.size} connections`);
});

test("a stream goes on after its deadline, ends with the caller, and fails like a call", async () => {
  let hung = false;
  await using server = await startFakeApiServer((request, response) => {
    if (request.url === "/refused") return sendJson(response, 410, statusBody(410, "Expired"));
    if (request.url === "/silent") return undefined;
    response.write("one\n");
    setTimeout(() => response.write("two\n"), 300);
    request.socket.on("close", () => (hung = true));
    return undefined;
  });
  await using client = await openKubeClient({ kubeconfig: await server.kubeconfig(), signal });
  const common = { verb: "watch", resource: "pods", signal };
  await failsWith(client.stream({ ...common, path: "/refused" }), "gone");
  await failsWith(client.stream({ ...common, path: "/silent", timeoutMs: 200 }), "timeout");
  const stop = new AbortController();
  const stream = await client.stream({ ...common, path: "/lines", signal: stop.signal, timeoutMs: 5_000 });
  let text = "";
  await assert.rejects(async () => {
    for await (const chunk of stream.chunks) {
      text += chunk.toString();
      if (text.includes("two")) stop.abort(new Error("enough"));
    }
  }, /enough/);
  assert.equal(text, "one\ntwo\n");
  await eventually(() => assert.ok(hung, "the server notices"));
});

test("after disposal every call fails at once", async () => {
  await using server = await startFakeApiServer(() => undefined);
  const client = await openKubeClient({ kubeconfig: await server.kubeconfig(), signal });
  const pending = client.get(pods, web, { signal });
  const failed = failsWith(pending, "unavailable", /closed/);
  await new Promise((resolve) => setTimeout(resolve, 50));
  await client[Symbol.asyncDispose]();
  await failed;
  await failsWith(client.get(pods, web, { signal }), "unavailable", /closed/);
  await client[Symbol.asyncDispose]();
});
